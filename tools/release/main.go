// Command release puts together what a release has, beside the image.
//
//	release -version VERSION -time UNIX -o DIR ROOT OS-ARCHITECTURE=BINARY...
//
// ROOT is the repository. It writes into DIR: an archive and a bill of materials of each binary, the chart, the OLM
// bundle, install.yaml and workloads.yaml with what config/default and config/workloads have, and SHA256SUMS of all
// files there. What goes in decides every byte.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "", "version of the release, with its v")
	seconds := flag.Int64("time", 0, "when the source was committed, in seconds since 1970")
	flag.StringVar(&r.dir, "o", "", "directory to write into")
	flag.Parse()
	if r.version == "" || r.dir == "" || flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: release -version VERSION -time UNIX -o DIR ROOT OS-ARCHITECTURE=BINARY...")
		os.Exit(2)
	}
	r.root, r.time = flag.Arg(0), time.Unix(*seconds, 0).UTC()
	if err := r.write(flag.Args()[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what is to be written.
type release struct {
	version, root, dir string
	// time is the only one in what is written.
	time time.Time
}

func (r release) write(binaries []string) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, argument := range binaries {
		platform, binary, ok := strings.Cut(argument, "=")
		if !ok {
			return fmt.Errorf("%q is not OS-ARCHITECTURE=BINARY", argument)
		}
		if err := r.writeBinary(platform, binary); err != nil {
			return fmt.Errorf("packing the binary for %s: %w", platform, err)
		}
	}
	number := strings.TrimPrefix(r.version, "v")
	return errors.Join(
		// Helm looks for a chart below the chart's name, in a file of this name.
		r.pack("tenantry-"+number+".tgz", directory(filepath.Join(r.root, "charts", "tenantry"), "tenantry")),
		r.pack("tenantry-bundle-"+r.version+".tar.gz", directory(filepath.Join(r.root, "bundle"), "bundle")),
		r.writeManifests(),
		r.writeSums(),
	)
}

// writeBinary writes an archive of a binary with its licence, and its bill of materials.
func (r release) writeBinary(platform, binary string) error {
	name := "tenantry-" + r.version + "-" + platform
	files := func() ([]file, error) {
		return []file{{"LICENSE", filepath.Join(r.root, "LICENSE"), 0o644}, {"tenantry", binary, 0o755}}, nil
	}
	return errors.Join(r.pack(name+".tar.gz", files), r.writeMaterials(name+".cdx.json", binary))
}
