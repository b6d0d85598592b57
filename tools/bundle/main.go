// Command bundle generates the OLM bundle from config/ and validates it.
//
//	bundle [-check] ROOT
//
// ROOT is the repository. It writes bundle/manifests from what config/default installs, and
// from config/manifests. bundle/metadata and bundle.Dockerfile do not change with the code.
// With -check it writes nothing and validates what is there.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// owned are the definitions that the version owns, in the order in which a console shows
// them. Their controllers are in the operator.
var owned = []definition{
	{resource: "controlplanes", sample: "controlplane.yaml", name: "Control plane", description: "Servers of Tenantry, with their volume, keys and addresses."},
	{resource: "tenants", sample: "host_tenant.yaml", name: "Tenant", description: "A tenant that has its space in a control plane, and the kubeconfig of its user."},
}

func main() {
	check := flag.Bool("check", false, "validate what is there, and write nothing")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: bundle [-check] ROOT")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	dir := filepath.Join(root, "bundle")
	if check {
		return validate(dir)
	}
	version, err := currentVersion(root)
	if err != nil {
		return err
	}
	parts, err := readHost(root)
	if err != nil {
		return err
	}
	return errors.Join(parts.write(root, version), validate(dir))
}
