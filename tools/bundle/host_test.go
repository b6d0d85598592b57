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
	binding    = "{kind: RoleBinding, metadata: {name: b}, roleRef: {kind: ClusterRole, name: r}, subjects: [{kind: ServiceAccount, name: a, namespace: ns}]}"
)

// TestRights checks what becomes of bindings, and that those are refused by which the
// operator would have more than where it works.
func TestRights(t *testing.T) {
	everywhere := strings.ReplaceAll(binding, "RoleBinding", "ClusterRoleBinding")
	harmless := strings.ReplaceAll(role, "secrets", "nodes")
	for name, test := range map[string]struct {
		objects             []string
		namespaced, cluster int
		err                 string
	}{
		"in the namespace":       {objects: []string{role, binding}, namespaced: 1},
		"in the cluster":         {objects: []string{harmless, binding, everywhere}, namespaced: 1, cluster: 1},
		"none":                   {err: "no RoleBinding gives the operator any right"},
		"Secrets in the cluster": {objects: []string{role, binding, everywhere}, err: "gives rights on Secrets of every namespace"},
		"all in the cluster": {
			objects: []string{strings.ReplaceAll(role, "secrets", "'*'"), binding, everywhere}, err: "gives rights on Secrets of every namespace",
		},
		"of another account":  {objects: []string{role, strings.ReplaceAll(binding, "name: a", "name: x")}, err: `not for the account "a" alone`},
		"of a missing role":   {objects: []string{binding}, err: `ClusterRole "r" is not there`},
		"another definition":  {objects: []string{"{kind: CustomResourceDefinition, metadata: {name: x.tenantry.io}}"}, err: "add it to the table"},
		"an unknown kind":     {objects: []string{"{kind: DaemonSet, metadata: {name: x}}"}, err: "nothing says what a bundle does with this kind"},
		"a second Deployment": {objects: []string{deployment}, err: `there is "d" already`},
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
