package main

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestBounded checks that users hear of certificates that are valid for less than they have asked for.
func TestBounded(t *testing.T) {
	keys, err := pki.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := kubeconfig.New(keys, "https://127.0.0.1:6443", kubeconfig.User{Tenant: tenant.System, Name: "jane", Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	exec, err := kubeconfig.NewExec("https://127.0.0.1:6443", keys.ServerCA.PEM(), "acme", "keystone")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		config   []byte
		validity time.Duration
		want     bool
	}{
		"as asked":       {config, time.Hour, false},
		"less":           {config, 2 * time.Hour, true},
		"no certificate": {exec, time.Hour, false},
	} {
		o := kubeconfigFlags{user: kubeconfig.User{Validity: tc.validity}}
		if _, got := o.bounded(tc.config, time.Now()); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
