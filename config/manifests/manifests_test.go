package manifests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	if len(definitions.Resources) == 0 {
		t.Fatal("found no definitions")
	}
	for _, definition := range definitions.Resources {
		bundled := filepath.Join(bundle, definition)
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
