// Command chart makes the Helm chart of the operator from config/.
//
//	chart [-package DIR] ROOT
//
// ROOT is the repository. It writes charts/tenantry/Chart.yaml and the templates of what
// config/default installs; values, their schema, the helpers and the notes are written by
// hand. With -package it writes the chart as an archive into DIR, too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("package", "", "directory for the chart as an archive")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: chart [-package DIR] ROOT")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(root, dir string) error {
	to := filepath.Join(root, "charts", "tenantry")
	version, err := currentVersion(root)
	if err != nil {
		return err
	}
	objects, err := build(filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeMetadata(to, version), writeTemplates(to, objects)); err != nil || dir == "" {
		return err
	}
	return pack(to, dir)
}
