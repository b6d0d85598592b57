// Command image packs static binaries, or an OLM bundle, into a container image, without a
// container engine.
//
//	image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY...
//	image -o FILE -name NAME [-time UNIX] -bundle DIR ARCHITECTURE...
//
// FILE is a tarball with an OCI image layout, which "ctr images import" reads, and the
// manifest.json that "docker load" reads. The image has a binary for each architecture,
// and the roots of Mozilla's certificate authorities; that of a bundle has the manifests and
// metadata that are in DIR. What goes in decides every byte of it.
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
	bundle := flags.String("bundle", "", "directory of an OLM bundle, in place of binaries")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || *name == "" || flags.NArg() == 0 {
		return fmt.Errorf("usage: image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY [...], or -bundle DIR ARCHITECTURE [...]")
	}
	contents, err := read(*bundle, flags.Args())
	if err != nil {
		return err
	}
	made, err := build(contents, time.Unix(*created, 0).UTC())
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

// read returns what is in the image for each architecture.
func read(bundle string, args []string) ([]content, error) {
	if bundle != "" {
		return bundled(bundle, args)
	}
	var contents []content
	for _, arg := range args {
		architecture, path, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not ARCHITECTURE=BINARY", arg)
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the binary for %s: %w", architecture, err)
		}
		contents = append(contents, program(architecture, binary))
	}
	return contents, nil
}
