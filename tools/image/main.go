// Command image packs static binaries, an OLM bundle or a directory into a container image,
// without a container engine.
//
//	image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY...
//	image -o FILE -name NAME [-time UNIX] -bundle DIR ARCHITECTURE...
//	image -o FILE -name NAME [-time UNIX] -root DIR [-entrypoint WORDS] [-command WORDS] ARCHITECTURE
//
// FILE is a tarball with an OCI image layout, which "ctr images import" reads, and the
// manifest.json that "docker load" reads. The image has a binary for each architecture,
// and the roots of Mozilla's certificate authorities; that of a bundle has the manifests and
// metadata that are in DIR, and that of a directory has the files that are in it, and runs as
// root. What goes in decides every byte of it.
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
	root := flags.String("root", "", "directory of the image's files, in place of binaries")
	entrypoint := flags.String("entrypoint", "", "what an image of -root runs, in words")
	command := flags.String("command", "", "what it runs, or its arguments, if a container has none")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *file == "" || *name == "" || flags.NArg() == 0 {
		return fmt.Errorf("usage: image -o FILE -name NAME [-time UNIX] ARCHITECTURE=BINARY [...], or -bundle DIR ARCHITECTURE [...], or -root DIR ARCHITECTURE")
	}
	var contents []content
	var err error
	switch {
	case *bundle != "" && *root != "":
		err = fmt.Errorf("-bundle and -root exclude each other")
	case *bundle != "":
		contents, err = bundled(*bundle, flags.Args())
	case *root != "":
		contents, err = rooted(*root, *entrypoint, *command, flags.Args())
	default:
		contents, err = programs(flags.Args())
	}
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

// programs returns what is in an image of binaries for each architecture.
func programs(args []string) ([]content, error) {
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
