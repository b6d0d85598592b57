// Command image packs static binaries into a container image, without a container engine.
//
//	image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY...
//
// FILE is a tarball with an OCI image layout, which "ctr images import" reads, and the
// manifest.json that "docker load" reads. The image has a binary for each architecture,
// and the roots of Mozilla's certificate authorities. What goes in decides every byte of it.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	file := flags.String("o", "", "file to write")
	name := flags.String("name", "", "name of the image, with its tag")
	created := flags.Int64("time", 0, "when the source was committed, in seconds since 1970")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || *name == "" || flags.NArg() == 0 {
		return fmt.Errorf("usage: image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY [...]")
	}
	var programs []program
	for _, arg := range flags.Args() {
		architecture, path, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=BINARY", arg)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the binary for %s: %w", architecture, err)
		}
		programs = append(programs, program{architecture, content})
	}
	made, err := build(programs, time.Unix(*created, 0).UTC())
	if err != nil {
		return err
	}
	if err := made.write(*file, *name); err != nil {
		return fmt.Errorf("writing %s: %w", *file, err)
	}
	digest, err := made.index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", *name, digest)
	return nil
}
