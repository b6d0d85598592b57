package main

import (
	"strings"
	"testing"
)

const (
	namespace  = "{apiVersion: v1, kind: Namespace, metadata: {name: ns}}"
	deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: {spec: {serviceAccountName: a}}}}"
	budget     = "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: d}}"
	role       = "{kind: ClusterRole, metadata: {name: r}, rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}"
	binding    = "{kind: RoleBinding, metadata: {name: b, namespace: ns}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount, name: a, namespace: ns}]}"
)

// TestRights checks what becomes of bindings, and that those are refused by which the
// operator would have more than where it works.
func TestRights(t *testing.T) {
	everywhere := "{kind: ClusterRoleBinding, metadata: {name: t}, roleRef: {kind: ClusterRole, name: t}, subjects: [{kind: ServiceAccount, name: a, namespace: ns}]}"
	tenants := func(rule string) string { return "{kind: ClusterRole, metadata: {name: t}, rules: [" + rule + "]}" }
	const (
		allowed = "{apiGroups: [tenantry.io], resources: [tenants, tenants/status, tenants/finalizers], verbs: [get, list, watch, update, patch]}"
		tooMuch = "gives more in the whole cluster than to read and change Tenants"
	)
	changed := func(from, to string) []string {
		return []string{role, binding, tenants(allowed + ", " + strings.Replace(allowed, from, to, 1)), everywhere}
	}
	for name, test := range map[string]struct {
		objects             []string
		namespaced, cluster int
		err                 string
	}{
		"in the namespace":       {objects: []string{role, binding}, namespaced: 1},
		"elsewhere":              {objects: []string{role, binding, strings.Replace(binding, "{name: b, namespace: ns}", "{name: e, namespace: default}", 1)}, namespaced: 1},
		"in the cluster":         {objects: []string{role, binding, tenants(allowed), everywhere}, namespaced: 1, cluster: 1},
		"none":                   {err: "no RoleBinding gives the operator any right"},
		"Secrets in the cluster": {objects: changed("[tenantry.io], resources: [tenants,", "[''], resources: [secrets,"), err: tooMuch},
		"Tenants and Secrets":    {objects: changed("[tenants,", "[secrets, tenants,"), err: tooMuch},
		"all in the cluster":     {objects: changed("[tenants, tenants/status, tenants/finalizers]", "['*']"), err: tooMuch},
		"ControlPlanes in it":    {objects: changed("[tenants,", "[controlplanes,"), err: tooMuch},
		"of another group":       {objects: changed("[tenantry.io]", "[tenantry.io, '*']"), err: tooMuch},
		"to make Tenants":        {objects: changed("[get,", "[create,"), err: tooMuch},
		"to delete Tenants":      {objects: changed("[get,", "[delete,"), err: tooMuch},
		"every verb":             {objects: changed("[get,", "['*',"), err: tooMuch},
		"a path":                 {objects: []string{role, binding, tenants("{nonResourceURLs: [/metrics], verbs: [get]}"), everywhere}, err: tooMuch},
		"of another account":     {objects: []string{role, strings.ReplaceAll(binding, "name: a", "name: x")}, err: `not for the account "a" alone`},
		"of a missing role":      {objects: []string{binding}, err: `ClusterRole "r" is not there`},
		"another definition":     {objects: []string{"{kind: CustomResourceDefinition, metadata: {name: x.tenantry.io}}"}, err: "add it to the table"},
		"an unknown kind":        {objects: []string{"{kind: DaemonSet, metadata: {name: x}}"}, err: "nothing says what a bundle does with this kind"},
		"a second Deployment":    {objects: []string{deployment}, err: `there is "d" already`},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := hostOf(append([]string{namespace, deployment, budget}, test.objects...)...)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range h.rights.namespaced {
				if b.role.Kind != "Role" || b.binding.RoleRef.Kind != "Role" || b.binding.RoleRef.Name != b.role.Name || b.binding.Subjects[0].Namespace != "ns" {
					t.Errorf("the rights are %+v", b)
				}
			}
			if got, want := [2]int{len(h.rights.namespaced), len(h.rights.cluster)}, [2]int{test.namespaced, test.cluster}; got != want {
				t.Errorf("%v roles in the namespace and rules in the cluster, want %v", got, want)
			}
		})
	}
}
