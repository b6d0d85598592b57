package manifests

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/version"
)

const bundle = "../../bundle/manifests"

// csv is what the tests read of a ClusterServiceVersion.
type csv struct {
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	Spec struct {
		Version, Replaces string
		RelatedImages     []struct{ Image string }
		Install           struct {
			Spec struct {
				Permissions, ClusterPermissions []struct{ Rules []rbacv1.PolicyRule }
				Deployments                     []struct{ Spec appsv1.DeploymentSpec }
			}
		}
	}
}

// TestNothingIsSaidTwice checks that no manifest has a key twice, of which kubectl takes the last one without a word.
func TestNothingIsSaidTwice(t *testing.T) {
	read := 0
	if err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(filepath.Join("..", path))
		for document := range strings.SplitSeq(string(content), "\n---\n") {
			var object any
			if strictErr := yaml.UnmarshalStrict([]byte(document), &object); strictErr != nil {
				t.Errorf("config/%s: %v", path, strictErr)
			}
			read++
		}
		return err
	}); err != nil || read == 0 {
		t.Errorf("%d manifests were read: %v", read, err)
	}
}

// TestVersion checks that whatever is released has the version of the binary.
func TestVersion(t *testing.T) {
	var kustomization struct {
		Images []struct{ NewName, NewTag string }
	}
	decode(t, "../operator/kustomization.yaml", &kustomization)
	image := kustomization.Images[0].NewName + ":" + kustomization.Images[0].NewTag
	var bundled csv
	decode(t, filepath.Join(bundle, "tenantry.clusterserviceversion.yaml"), &bundled)
	var chart struct{ Version, AppVersion string }
	decode(t, "../../charts/tenantry/Chart.yaml", &chart)
	number := strings.TrimPrefix(version.Version, "v")
	for what, pair := range map[string][2]string{
		"tag in config/operator":           {kustomization.Images[0].NewTag, version.Version},
		"version of the bundle":            {bundled.Spec.Version, number},
		"name of the bundle":               {bundled.Metadata.Name, "tenantry." + version.Version},
		"image of the bundle":              {bundled.Metadata.Annotations["containerImage"], image},
		"related image of the bundle":      {bundled.Spec.RelatedImages[0].Image, image},
		"image of the bundle's Deployment": {bundled.Spec.Install.Spec.Deployments[0].Spec.Template.Spec.Containers[0].Image, image},
		"version of the chart":             {chart.Version, number},
		"version of what the chart has":    {chart.AppVersion, version.Version},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the %s is %q and not %q: run `make manifests bundle chart`", what, pair[0], pair[1])
		}
	}
	if bundled.Spec.Replaces == "" || bundled.Spec.Replaces == bundled.Metadata.Name {
		t.Errorf("%q replaces %q: name the release before it in tenantry.clusterserviceversion.yaml", bundled.Metadata.Name, bundled.Spec.Replaces)
	}
}

// TestRightsOfBundle checks that the operator's rights are those of a Role in its namespace, and
// on Tenants, which have no namespace:
// OLM makes ClusterRoles of what a version permits where it installs for all namespaces, and
// does so for a version that does not support that, too.
func TestRightsOfBundle(t *testing.T) {
	var bundled csv
	decode(t, filepath.Join(bundle, "tenantry.clusterserviceversion.yaml"), &bundled)
	for _, permission := range bundled.Spec.Install.Spec.Permissions {
		if len(permission.Rules) > 0 {
			t.Errorf("OLM can give in the whole cluster what the version permits: %v", permission.Rules)
		}
	}
	var cluster []rbacv1.PolicyRule
	for _, permission := range bundled.Spec.Install.Spec.ClusterPermissions {
		cluster = append(cluster, permission.Rules...)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		{APIGroups: []string{"tenantry.io"}, Resources: []string{"tenants"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{"tenantry.io"}, Resources: []string{"tenants/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{"tenantry.io"}, Resources: []string{"tenants/finalizers"}, Verbs: []string{"update"}},
	}, cluster); diff != "" {
		t.Errorf("what the operator may do in the whole cluster, where it has Tenants and nothing else (-want +got):\n%s", diff)
	}
	var role rbacv1.Role
	decode(t, filepath.Join(bundle, "tenantry-operator_rbac.authorization.k8s.io_v1_role.yaml"), &role)
	if role.Kind != "Role" || !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "secrets") }) {
		t.Errorf("the %s of the operator has no rights on Secrets: %v", role.Kind, role.Rules)
	}
	var binding rbacv1.RoleBinding
	decode(t, filepath.Join(bundle, "tenantry-operator_rbac.authorization.k8s.io_v1_rolebinding.yaml"), &binding)
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "tenantry-operator", Namespace: bundled.Metadata.Annotations["operatorframework.io/suggested-namespace"]}}
	if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.Kind != "RoleBinding" {
		t.Errorf("who has the role (-want +got):\n%s", diff)
	}
}

// TestBundledDefinitions checks that host clusters get the same definitions by each way.
func TestBundledDefinitions(t *testing.T) {
	definitions, err := filepath.Glob(filepath.Join(bundle, "tenantry.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatalf("found no definitions: %v", err)
	}
	for _, bundled := range definitions {
		if diff := cmp.Diff(read(t, filepath.Join("../crd", filepath.Base(bundled))), read(t, bundled)); diff != "" {
			t.Errorf("%s is not current, run `make bundle` (-config +bundle):\n%s", bundled, diff)
		}
	}
}

// TestAlertRules checks that both files of alert rules have the same.
func TestAlertRules(t *testing.T) {
	type groups []struct {
		Name  string
		Rules []map[string]any
	}
	var file struct{ Groups groups }
	var custom struct{ Spec struct{ Groups groups } }
	decode(t, "../prometheus/rules.yaml", &file)
	decode(t, "../prometheus/prometheusrule.yaml", &custom)
	if len(file.Groups) == 0 || len(file.Groups[0].Rules) == 0 {
		t.Fatal("found no rules")
	}
	if diff := cmp.Diff(file.Groups, custom.Spec.Groups); diff != "" {
		t.Errorf("prometheusrule.yaml differs from rules.yaml (-rules +prometheusrule):\n%s", diff)
	}
}

// TestServiceMonitor checks that Prometheus reaches the server by a port and a name
// that it has.
func TestServiceMonitor(t *testing.T) {
	var monitor struct {
		Spec struct {
			Endpoints []struct {
				Port      string
				TLSConfig struct{ ServerName string }
			}
		}
	}
	decode(t, "../standalone/monitoring/servicemonitor.yaml", &monitor)
	var service corev1.Service
	decode(t, "../standalone/service.yaml", &service)
	var set appsv1.StatefulSet
	decode(t, "../standalone/statefulset.yaml", &set)
	if len(monitor.Spec.Endpoints) != 1 {
		t.Fatalf("%d endpoints, want 1", len(monitor.Spec.Endpoints))
	}
	endpoint := monitor.Spec.Endpoints[0]
	if got := service.Spec.Ports[0].Name; got != endpoint.Port {
		t.Errorf("the Service has port %q, the ServiceMonitor wants %q", got, endpoint.Port)
	}
	container := set.Spec.Template.Spec.Containers[0]
	if want := "--tls-san=" + endpoint.TLSConfig.ServerName; !slices.Contains(container.Args, want) {
		t.Errorf("the server's arguments %q lack %s", container.Args, want)
	}
}

// TestNetworkPolicies checks that they let in what is for the ports of the pods.
func TestNetworkPolicies(t *testing.T) {
	var set appsv1.StatefulSet
	decode(t, "../standalone/statefulset.yaml", &set)
	var manager appsv1.Deployment
	decode(t, "../manager/manager.yaml", &manager)
	var metrics []struct{ Value any }
	decode(t, "../manager/monitoring/metrics.yaml", &metrics)
	for file, ports := range map[string][]string{
		"../standalone/networkpolicy.yaml":         {set.Spec.Template.Spec.Containers[0].Ports[0].Name},
		"../manager/networkpolicy.yaml":            nil,
		"../manager/monitoring/networkpolicy.yaml": {metrics[1].Value.(map[string]any)["name"].(string)},
	} {
		var policy networkingv1.NetworkPolicy
		decode(t, file, &policy)
		if len(policy.Spec.PodSelector.MatchLabels) == 0 {
			t.Errorf("%s is for every pod of the namespace", file)
		}
		var open []string
		for _, ingress := range policy.Spec.Ingress {
			for _, port := range ingress.Ports {
				open = append(open, port.Port.String())
			}
		}
		if diff := cmp.Diff(ports, open); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	if !maps.Equal(manager.Spec.Selector.MatchLabels, manager.Spec.Template.Labels) {
		t.Error("the labels of the operator's pods are not those that its policies select")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
