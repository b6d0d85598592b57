// Command chart makes the Helm chart of the operator from config/.
//
//	chart ROOT
//
// ROOT is the repository. It writes charts/tenantry/Chart.yaml and the templates of what
// config/default installs; values, their schema, the helpers and the notes are written by
// hand.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chart ROOT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	to := filepath.Join(root, "charts", "tenantry")
	version, err := currentVersion(root)
	if err != nil {
		return err
	}
	objects, err := build(filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	return errors.Join(writeMetadata(to, version), writeTemplates(to, objects))
}
