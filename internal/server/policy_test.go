package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/internal/server/admission"
)

// parsed returns the options of flags.
func parsed(t *testing.T, args ...string) *Options {
	t.Helper()
	o := NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestValidateNodes checks that there is no mode Node without what restricts nodes.
func TestValidateNodes(t *testing.T) {
	file := func(mode string) string {
		path := filepath.Join(t.TempDir(), "authorization.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"+
			"authorizers:\n- {type: "+mode+", name: "+strings.ToLower(mode)+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--authorization-config=" + path
	}
	const off = "--disable-admission-plugins=NodeRestriction"
	for name, tc := range map[string]struct {
		flags   []string
		refused bool
	}{
		"defaults":                         {},
		"disabled":                         {flags: []string{off}, refused: true},
		"disabled, without the mode":       {flags: []string{off, "--authorization-mode=RBAC"}},
		"disabled, mode in a file":         {flags: []string{off, file("Node")}, refused: true},
		"disabled, no such mode in a file": {flags: []string{off, file("RBAC")}},
		"another one disabled":             {flags: []string{"--disable-admission-plugins=Priority"}},
		"not in the list":                  {flags: []string{"--admission-control=ServiceAccount"}, refused: true},
		"in the list":                      {flags: []string{"--admission-control=ServiceAccount,NodeRestriction"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := parsed(t, tc.flags...)
			if o.Kube.Authorization.AuthorizationConfigurationFile != "" {
				o.Kube.Authorization.Modes = nil // as upstream does
			}
			err := validateNodes(o.Kube.Authorization, o.Kube.Admission)
			if refused := errors.Is(err, admission.ErrUnrestrictedNodes); refused != tc.refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

// TestModes checks that nobody gets every right because a flag is empty.
func TestModes(t *testing.T) {
	for flag, want := range map[string]string{
		"--authorization-mode=":        "--authorization-mode is empty",
		"--authorization-mode=Unknown": "Unknown",
	} {
		o := parsed(t, flag, "--etcd-servers=http://127.0.0.1:1", "--service-account-issuer=https://issuer", "--cert-dir="+t.TempDir())
		completed, err := o.Complete(t.Context())
		if err == nil {
			err = errors.Join(completed.Validate()...)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flag, err, want)
		}
	}
}

// TestValidateSpaces checks that what keeps tenants from the platform cannot be left out.
func TestValidateSpaces(t *testing.T) {
	for flag, refused := range map[string]bool{
		"":                                     false,
		"--disable-admission-plugins=Priority": false,
		"--disable-admission-plugins=SpacePolicy,Published":        true,
		"--disable-admission-plugins=Published":                    true,
		"--admission-control=ServiceAccount":                       true,
		"--admission-control=Published,SpacePolicy,ServiceAccount": false,
	} {
		o := parsed(t, strings.Fields(flag)...)
		if err := admission.ValidateSpaces(o.Kube.Admission); (err != nil) != refused {
			t.Errorf("%q: %v, want refused: %v", flag, err, refused)
		}
	}
}
