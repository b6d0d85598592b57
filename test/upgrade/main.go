package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/tenantry/tenantry/test/harness"
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
	harness.Main("upgrade", func(ctx context.Context) error {
		return harness.InTempDir("upgrade", func(dir string) error { return upgrade(ctx, dir, *before, *after) })
	})
}

func upgrade(ctx context.Context, dir, before, after string) error {
	port, err := harness.FreePort()
	if err != nil {
		return err
	}
	var written store
	if err := with(ctx, before, dir, port, func(c *cluster) error {
		if err := c.write(ctx); err != nil {
			return err
		}
		written, err = c.settled(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("with %s: %w", before, err)
	}
	fmt.Printf("%d objects of %d resources in %d spaces\n", written.len(), len(written), len(spaces))
	return with(ctx, after, dir, port, func(c *cluster) error {
		found, err := c.read(ctx, written.resources())
		if err != nil {
			return err
		}
		changed, missing := written.compare(found)
		for _, line := range changed {
			fmt.Println("written since:", line)
		}
		if len(missing) > 0 {
			slices.Sort(missing)
			return fmt.Errorf("the store is not complete:\n%s", strings.Join(missing, "\n"))
		}
		if err := c.touch(ctx); err != nil {
			return err
		}
		return c.deleteTenants(ctx)
	})
}

// with does something with a running Tenantry.
func with(ctx context.Context, binary, dir string, port int, do func(*cluster) error) error {
	running, err := harness.Up(ctx, binary, dir, port)
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
