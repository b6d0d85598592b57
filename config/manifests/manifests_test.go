package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

const bundle = "../../bundle/manifests"

// version is what the test reads of a ClusterServiceVersion.
type version struct {
	Metadata struct {
		Annotations map[string]string
	}
	Spec struct {
		Install struct {
			Spec struct {
				Deployments []struct {
					Name string
					Spec appsv1.DeploymentSpec
				}
			}
		}
	}
}

func TestBundleIsCurrent(t *testing.T) {
	var definitions struct{ Resources []string }
	decode(t, "../crd/kustomization.yaml", &definitions)
	bundledDefinitions, err := filepath.Glob(filepath.Join(bundle, "tenantry.io_*.yaml"))
	if err != nil || len(bundledDefinitions) == 0 {
		t.Fatalf("found no definitions: %v", err)
	}
	for _, bundled := range bundledDefinitions {
		definition := filepath.Base(bundled)
		if !slices.Contains(definitions.Resources, definition) {
			t.Errorf("%s is not for host clusters", bundled)
		}
		if diff := cmp.Diff(read(t, filepath.Join("../crd", definition)), read(t, bundled)); diff != "" {
			t.Errorf("%s is not current, run `make bundle` (-config +bundle):\n%s", bundled, diff)
		}
	}

	var csv version
	decode(t, filepath.Join(bundle, "tenantry.clusterserviceversion.yaml"), &csv)
	var want appsv1.Deployment
	decode(t, "../manager/manager.yaml", &want)
	want.Spec.Template.Spec.Containers[0].Image = csv.Metadata.Annotations["containerImage"]
	if len(csv.Spec.Install.Spec.Deployments) != 1 {
		t.Fatalf("%d deployments, want 1", len(csv.Spec.Install.Spec.Deployments))
	}
	if diff := cmp.Diff(want.Spec, csv.Spec.Install.Spec.Deployments[0].Spec); diff != "" {
		t.Errorf("the bundle's Deployment is not current, run `make bundle` (-config +bundle):\n%s", diff)
	}

	var settings corev1.ConfigMap
	decode(t, filepath.Join(bundle, "tenantry-manager_v1_configmap.yaml"), &settings)
	if diff := cmp.Diff(read(t, "../manager/manager_configuration.yaml"), settings.Data["manager.yaml"]); diff != "" {
		t.Errorf("the bundle's ConfigMap is not current, run `make bundle` (-config +bundle):\n%s", diff)
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
