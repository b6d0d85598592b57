package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"

	"github.com/tenantry/tenantry/test/bench/process"
)

// spaces are those that have objects; the system space is "".
var spaces = []string{"", "acme", "umbrella"}

func main() {
	before := flag.String("before", "", "The binary of the version that writes the store.")
	after := flag.String("after", "bin/tenantry", "The binary of the version that starts on it.")
	flag.Parse()
	if *before == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *before, *after); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

// run keeps the directory of state and log if something is wrong.
func run(ctx context.Context, before, after string) error {
	dir, err := os.MkdirTemp("", "tenantry-upgrade-")
	if err != nil {
		return err
	}
	if err := upgrade(ctx, dir, before, after); err != nil {
		return fmt.Errorf("state and log are in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

func upgrade(ctx context.Context, dir, before, after string) error {
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	var written store
	if err := with(before, dir, port, func(c *cluster) error {
		if err := c.write(ctx); err != nil {
			return err
		}
		written, err = c.settled(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("with %s: %w", before, err)
	}
	fmt.Printf("%d objects of %d resources in %d spaces\n", written.len(), len(written), len(spaces))
	return with(after, dir, port, func(c *cluster) error {
		found, err := c.read(ctx, written.resources())
		if err != nil {
			return err
		}
		changed, missing := written.compare(found)
		for _, line := range changed {
			fmt.Println("written since:", line)
		}
		if len(missing) > 0 {
			return fmt.Errorf("the store is not complete:\n%w", join(missing))
		}
		if err := c.touch(ctx); err != nil {
			return err
		}
		return c.deleteTenants(ctx)
	})
}

// with does something with a running Tenantry.
func with(binary, dir string, port int, do func(*cluster) error) error {
	running, err := process.Start(exec.Command(binary, process.UpArgs(dir, port)...), dir)
	if err != nil {
		return err
	}
	defer running.End(syscall.SIGTERM)
	c, err := connect(running.Config)
	if err != nil {
		return err
	}
	return do(c)
}

func join(lines []string) error {
	slices.Sort(lines)
	errs := make([]error, len(lines))
	for i, line := range lines {
		errs[i] = errors.New(line)
	}
	return errors.Join(errs...)
}
