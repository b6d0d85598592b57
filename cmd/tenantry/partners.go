package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ofSyncer are the flags that the syncer alone reads.
var ofSyncer = []string{
	"network-isolation", "network-isolation-cluster-cidrs", "network-isolation-allow-cidrs", "workloads-image", "trust-local-images", "orphan-limit",
	"max-namespaces-per-tenant", "dns-service",
}

// partners are the flags that have no effect without another: without it, or one of several.
var partners = []struct{ flags, need []string }{
	{
		[]string{"search-annotations", "search-property", "search-max-objects", "search-max-items", "search-timeout", "search-concurrency", "search-socket-bytes"},
		[]string{"search"},
	},
	{
		slices.Concat(ofSyncer, []string{"workloads-api-address", "syncer"}),
		[]string{"host-kubeconfig", "host-in-cluster"},
	},
	{ofSyncer, []string{"syncer"}},
	{
		[]string{"audit-policy-file"},
		[]string{"audit-log-path", "audit-webhook-config-file"},
	},
	{
		[]string{"audit-log-path", "audit-webhook-config-file"},
		[]string{"audit-policy-file"},
	},
	{
		[]string{"requestheader-allow-system", "requestheader-allowed-names", "requestheader-tenant-extra-key", "requestheader-username-headers",
			"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix"},
		[]string{"requestheader-client-ca-file"},
	},
	{
		[]string{"authentication-token-webhook-allow-system", "authentication-token-webhook-tenant-extra-key", "authentication-token-webhook-cache-ttl",
			"authentication-token-webhook-version"},
		[]string{"authentication-token-webhook-config-file"},
	},
	{
		[]string{"authorization-webhook-version", "authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"},
		[]string{"authorization-webhook-config-file"},
	},
	{
		[]string{"keystone-allow-system"},
		[]string{"keystone-config"},
	},
}

// checkPartners refuses flags that are given and have no effect.
func checkPartners(fs *pflag.FlagSet) error {
	on := func(name string) bool {
		flag := fs.Lookup(name)
		return flag != nil && !slices.Contains([]string{"", "false", "[]"}, flag.Value.String())
	}
	given := func(name string) bool {
		flag := fs.Lookup(name)
		return flag != nil && flag.Changed && (on(name) || flag.Value.String() != flag.DefValue)
	}
	for _, p := range partners {
		if slices.ContainsFunc(p.need, on) {
			continue
		}
		if i := slices.IndexFunc(p.flags, given); i >= 0 {
			return fmt.Errorf("--%s has no effect without --%s: add that, or leave --%[1]s out", p.flags[i], strings.Join(p.need, " or --"))
		}
	}
	return nil
}
