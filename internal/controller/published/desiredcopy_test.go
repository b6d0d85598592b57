package published

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func parse(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	source := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &source.Object); err != nil {
		t.Fatal(err)
	}
	return source
}

func desiredCopyOf(t *testing.T, resource, manifest string) *desiredCopy {
	t.Helper()
	source := parse(t, manifest)
	group := schema.ParseGroupResource(resource)
	desired, err := newDesiredCopy(Object{Resource: group, Namespace: source.GetNamespace(), Name: source.GetName()}, group.WithVersion("v1"), source)
	if err != nil {
		t.Fatal(err)
	}
	return desired
}

const everything = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: object
  namespace: ns
  uid: u
  resourceVersion: "7"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [example.com/x]
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: o}]
  managedFields: [{manager: m}]
  selfLink: /x
  labels: {l: v}
  annotations:
    a: v
    multi-tenancy.k8s.io/published: "true"
    tenantry.io/tenant: acme
    kubectl.kubernetes.io/last-applied-configuration: "{}"
data: {k: v}
status: {x: y}
`

func TestDesiredCopy(t *testing.T) {
	desired := desiredCopyOf(t, "configmaps", everything)
	want := map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": "v"},
		"metadata": map[string]any{
			"name": "object", "namespace": "ns", "resourceVersion": "42",
			"labels":      map[string]any{"l": "v", tenant.PublishedCopyLabel: tenant.PublishedCopy},
			"annotations": map[string]any{"a": "v", tenant.PublishedFromAnnotation: desired.from.Value()},
		},
	}
	var got map[string]any
	if err := json.Unmarshal(desired.body(42), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want["metadata"].(map[string]any)["resourceVersion"] = ""
	got = nil
	if err := json.Unmarshal(desired.body(0), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if uid, hash, ok := strings.Cut(desired.from.Value(), "/"); !ok || uid != "u" || hash == "" {
		t.Errorf("from is %q", desired.from.Value())
	}
	if desired.force || desired.implied {
		t.Errorf("force %v, implied %v", desired.force, desired.implied)
	}
}

func TestDesiredCopiesAreEqualUnlessContentChanges(t *testing.T) {
	base := desiredCopyOf(t, "configmaps", everything).from
	for name, tc := range map[string]struct {
		from, to string
		equal    bool
	}{
		"data":         {"data: {k: v}", "data: {k: w}", false},
		"label":        {"{l: v}", "{l: w}", false},
		"annotation":   {"    a: v", "    a: w", false},
		"made anew":    {"uid: u", "uid: w", false},
		"version":      {`"7"`, `"8"`, true},
		"status":       {"x: y", "x: z", true},
		"last applied": {`"{}"`, `"{1}"`, true},
		"finalizer":    {"example.com/x", "example.com/y", true},
		"force":        {`published: "true"`, `published: force`, true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(everything, tc.from, tc.to, 1)
			if changed == everything {
				t.Fatal("nothing was changed")
			}
			if got := desiredCopyOf(t, "configmaps", changed).from == base; got != tc.equal {
				t.Errorf("equal: %v", got)
			}
		})
	}
}

func TestDesiredCopyOfAggregatedRole(t *testing.T) {
	desired := desiredCopyOf(t, "clusterroles.rbac.authorization.k8s.io",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: object}, aggregationRule: {}, rules: []}")
	if strings.Contains(string(desired.body(0)), "aggregationRule") {
		t.Error("tenants can add to the copy's rules")
	}
}

func TestDesiredCopyOfCredentials(t *testing.T) {
	for kind, refused := range map[string]bool{
		"kubernetes.io/service-account-token": true, "bootstrap.kubernetes.io/token": true, "Opaque": false, "kubernetes.io/tls": false,
	} {
		source := parse(t, "{apiVersion: v1, kind: Secret, metadata: {name: object, namespace: ns}, type: "+kind+"}")
		_, err := newDesiredCopy(Object{Name: "n"}, schema.GroupVersionResource{}, source)
		if isNotPublishable(err) != refused {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestImpliedNamespace(t *testing.T) {
	first, err := impliedNamespace("ns")
	if err != nil {
		t.Fatal(err)
	}
	second, err := impliedNamespace("ns")
	if err != nil {
		t.Fatal(err)
	}
	if !first.implied || first.from != second.from {
		t.Errorf("implied %v, from %q and %q", first.implied, first.from.Value(), second.from.Value())
	}
}

func TestOrder(t *testing.T) {
	var got []string
	objects := []Object{
		{Resource: schema.ParseGroupResource("validatingwebhookconfigurations.admissionregistration.k8s.io"), Name: "h"},
		{Resource: schema.ParseGroupResource("validatingadmissionpolicies.admissionregistration.k8s.io"), Name: "g"},
		{Resource: schema.ParseGroupResource("rolebindings.rbac.authorization.k8s.io"), Namespace: "a", Name: "f"},
		{Resource: schema.ParseGroupResource("roles.rbac.authorization.k8s.io"), Namespace: "a", Name: "e"},
		{Resource: configMaps, Namespace: "b", Name: "d"},
		{Resource: configMaps, Namespace: "a", Name: "d"},
		{Resource: schema.ParseGroupResource("priorityclasses.scheduling.k8s.io"), Name: "c"},
		{Resource: definitions, Name: "b"},
		namespaceObject("a"),
	}
	s := newSources(func(Object) {})
	for _, o := range objects {
		s.put(o, &source{version: "1"})
	}
	for _, group := range byRank(s.list()) {
		name := ""
		for _, o := range group {
			name += o.Name
		}
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "dd", "e", "f", "g", "h"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestFinalizersOfNamespaces checks that a copy of a namespace has no finalizer that nobody would take away in a space.
func TestFinalizersOfNamespaces(t *testing.T) {
	const namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns, uid: u}\n"
	for finalizers, want := range map[string]any{
		"":                                 nil,
		"spec: {finalizers: [kubernetes]}": map[string]any{"finalizers": []any{"kubernetes"}},
		"spec: {finalizers: [kubernetes, example.com/x]}": map[string]any{"finalizers": []any{"kubernetes"}},
		"spec: {}": map[string]any{"finalizers": []any{"kubernetes"}},
	} {
		var got map[string]any
		if err := json.Unmarshal(desiredCopyOf(t, "namespaces", namespace+finalizers).body(0), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got["spec"]); diff != "" {
			t.Errorf("%q: %s", finalizers, diff)
		}
	}
}
