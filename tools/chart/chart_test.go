package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	dir  = root + "/charts/tenantry"
)

// definitions are the resources of those that the chart has.
var definitions = []string{"controlplanes", "tenants"}

// render returns what Helm makes of the chart by values in YAML, by kind and name.
func render(t *testing.T, namespace, values string) (map[string]object, error) {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "r", Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]object{}
	for file, content := range files {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(content, "\n---\n") {
			o := object{}
			if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, document)
			}
			if len(o) > 0 {
				objects[key(o)] = o
			}
		}
	}
	return objects, nil
}

func key(o object) string {
	namespace, _ := o.metadata()["namespace"].(string)
	return o.kind() + " " + namespace + "/" + o.name()
}

func must(t *testing.T, namespace, values string) map[string]object {
	t.Helper()
	objects, err := render(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestChartIsWhatKubectlApplies checks that a release with no values, in the namespace of
// config/default, has the same objects.
func TestChartIsWhatKubectlApplies(t *testing.T) {
	applied, err := build(root + "/config/default")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]object{}
	for _, o := range applied {
		want[key(o)] = o
	}
	got := must(t, "tenantry-system", "")
	for _, o := range got {
		labels := o.metadata().in("labels")
		for name := range maps.Clone(labels) {
			if slices.Contains([]string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}, name) {
				delete(labels, name)
			}
		}
		if len(labels) == 0 {
			delete(o.metadata(), "labels")
		}
	}
	for _, resource := range definitions {
		definition := got["CustomResourceDefinition /"+resource+".tenantry.io"]
		if policy := definition.metadata().in("annotations")["helm.sh/resource-policy"]; policy != "keep" {
			t.Errorf("uninstalling deletes the definition, and all %s with it: its policy is %v", resource, policy)
		}
		delete(definition.metadata().in("annotations"), "helm.sh/resource-policy")
	}
	operator := container(got["Deployment tenantry-system/tenantry-operator"])
	if operator["imagePullPolicy"] != "IfNotPresent" {
		t.Errorf("imagePullPolicy is %v", operator["imagePullPolicy"])
	}
	delete(operator, "imagePullPolicy")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the chart is not current, run `make chart` (-config/default +chart):\n%s", diff)
	}
}

func container(deployment object) object {
	return object(pod(deployment)["containers"].([]any)[0].(map[string]any))
}

func pod(deployment object) object { return deployment.in("spec").in("template").in("spec") }

func TestValues(t *testing.T) {
	objects := must(t, "own", `{
		image: {repository: mirror.example/tenantry, digest: "sha256:`+strings.Repeat("0", 64)+`"}, imagePullSecrets: [{name: s}],
		namespaces: [a, b], defaultControlPlane: a/one, deletionPolicy: {install: false}, replicas: 2, resources: {limits: {memory: 1Gi}, requests: null},
		nodeSelector: {disk: fast}, tolerations: [{key: k}], priorityClassName: high, crds: {install: false}}`)
	bindings := slices.Sorted(func(yield func(string) bool) {
		for key := range objects {
			if kind, _, _ := strings.Cut(key, " "); strings.HasSuffix(kind, "RoleBinding") && !yield(key) {
				return
			}
		}
	})
	if diff := cmp.Diff([]string{
		"ClusterRoleBinding /tenantry-operator-tenants",
		"RoleBinding a/tenantry-operator", "RoleBinding b/tenantry-operator",
		"RoleBinding default/tenantry-operator-events", "RoleBinding own/tenantry-operator-election",
	}, bindings); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	for _, key := range bindings {
		if subject := objects[key]["subjects"].([]any)[0].(map[string]any); subject["namespace"] != "own" {
			t.Errorf("%s is for an account of %v", key, subject["namespace"])
		}
	}
	for _, resource := range definitions {
		if objects["CustomResourceDefinition /"+resource+".tenantry.io"] != nil {
			t.Errorf("the definition of %s is there, although it is not to be installed", resource)
		}
	}
	if objects["ValidatingAdmissionPolicy /tenantry-deletion"] != nil {
		t.Error("the policy of deletions is there, although it is not to be installed")
	}
	deployment := objects["Deployment own/tenantry-operator"]
	operator, image := container(deployment), "mirror.example/tenantry@sha256:"+strings.Repeat("0", 64)
	got := object{
		"image": operator["image"], "servers": operator["env"].([]any)[0].(map[string]any)["value"], "args": operator["args"].([]any)[3:],
		"resources": operator["resources"], "replicas": deployment.in("spec")["replicas"],
	}
	for _, field := range []string{"imagePullSecrets", "nodeSelector", "tolerations", "priorityClassName", "affinity"} {
		got[field] = pod(deployment)[field]
	}
	want := object{
		"image": image, "servers": image, "args": []any{"--namespace=a", "--namespace=b", "--default-control-plane=a/one"},
		"resources": map[string]any{"limits": map[string]any{"memory": "1Gi"}}, "replicas": float64(2),
		"imagePullSecrets": []any{map[string]any{"name": "s"}}, "nodeSelector": map[string]any{"disk": "fast"},
		"tolerations": []any{map[string]any{"key": "k"}}, "priorityClassName": "high", "affinity": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Deployment (-want +got):\n%s", diff)
	}
}

// TestInvalidValues checks that Helm refuses what would be a surprise.
func TestInvalidValues(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"a misspelt value":     {"{namespace: [a]}", "namespace"},
		"all namespaces":       {`{namespaces: [""]}`, "/namespaces/0"},
		"a namespace twice":    {"{namespaces: [a, a]}", "/namespaces"},
		"an image and a tag":   {"{image: {repository: 'a b'}}", "/image/repository"},
		"a digest of a letter": {"{image: {digest: x}}", "/image/digest"},
		"another's":            {"{namespaces: [a], defaultControlPlane: b/one}", "b/one\" is in none of the namespaces that the operator works in (a)"},
		"half a ControlPlane":  {"{defaultControlPlane: one}", "/defaultControlPlane"},
		"no operator":          {"{replicas: 0}", "/replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, "own", test.values); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one of %s", err, test.want)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for _, message := range lint.All(dir, nil, "own", true).Messages {
		if message.Severity > support.InfoSev {
			t.Error(message)
		}
	}
}
