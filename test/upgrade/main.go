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
		return harness.Install("upgrade", *before, func(at harness.Installation) error { return upgrade(ctx, at, *after) })
	})
}

func upgrade(ctx context.Context, at harness.Installation, after string) error {
	var written store
	if err := with(ctx, at, func(c *cluster) error {
		err := c.write(ctx)
		if err != nil {
			return err
		}
		written, err = c.settled(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("with %s: %w", at.Binary, err)
	}
	fmt.Printf("%d objects of %d resources in %d spaces\n", written.len(), len(written), len(spaces))
	at.Binary = after
	return with(ctx, at, func(c *cluster) error {
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
		if err := c.unpublish(ctx); err != nil {
			return err
		}
		return c.deleteTenants(ctx)
	})
}

// with does something with a running Tenantry.
func with(ctx context.Context, at harness.Installation, do func(*cluster) error) error {
	running, err := at.Up(ctx)
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
