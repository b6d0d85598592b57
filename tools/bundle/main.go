// Command bundle generates the OLM bundle from config/ and validates it.
//
//	bundle ROOT
//
// ROOT is the repository. It writes bundle/manifests as operator-sdk would;
// bundle/metadata and bundle.Dockerfile do not change with the code.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// image is the annotation of the version's image, which the Deployment runs.
const image = "containerImage"

// kubernetes returns the version whose removed APIs the bundle must not use, that of the
// types of this module.
func kubernetes() (string, error) {
	build, _ := debug.ReadBuildInfo()
	for _, dependency := range build.Deps {
		if version, ok := strings.CutPrefix(dependency.Version, "v0."); ok && dependency.Path == "k8s.io/api" {
			minor, _, _ := strings.Cut(version, ".")
			return "1." + minor, nil
		}
	}
	return "", errors.New("the binary does not know the version of k8s.io/api")
}

var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.ObjectValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCapabilitiesValidator,
	validation.StandardCategoriesValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bundle ROOT")
		os.Exit(2)
	}
	root := os.Args[1]
	if err := errors.Join(generate(root), validate(filepath.Join(root, "bundle"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(root string) error {
	config := func(elements ...string) string {
		return filepath.Join(append([]string{root, "config"}, elements...)...)
	}
	out := filepath.Join(root, "bundle", "manifests")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	deployment := &appsv1.Deployment{}
	budget := &policyv1.PodDisruptionBudget{}
	if err := errors.Join(
		read(config("manifests", "tenantry.clusterserviceversion.yaml"), csv),
		read(config("manager", "manager.yaml"), deployment),
		read(config("manager", "poddisruptionbudget.yaml"), budget),
	); err != nil {
		return err
	}
	if err := complete(csv, deployment, config("samples", "tenant_full.yaml")); err != nil {
		return err
	}
	settings, err := os.ReadFile(config("manager", "manager_configuration.yaml"))
	if err != nil {
		return err
	}
	configMap := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: deployment.Name},
		Data:       map[string]string{"manager.yaml": string(settings)},
	}
	// Of what host clusters install, the bundle has the definitions whose controllers it brings.
	var definitions struct{ Resources []string }
	if err := read(config("crd", "kustomization.yaml"), &definitions); err != nil {
		return err
	}
	for _, definition := range definitions.Resources {
		if !owned(csv, definition) {
			continue
		}
		data, err := os.ReadFile(config("crd", definition))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, definition), data, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(
		write(filepath.Join(out, "tenantry.clusterserviceversion.yaml"), csv),
		write(filepath.Join(out, "tenantry-manager_v1_configmap.yaml"), configMap),
		write(filepath.Join(out, "tenantry-manager_policy_v1_poddisruptionbudget.yaml"), budget),
	)
}

// owned reports whether the version owns the definition in a file, which controller-gen has
// named by group and plural.
func owned(csv *v1alpha1.ClusterServiceVersion, file string) bool {
	group, plural, _ := strings.Cut(strings.TrimSuffix(file, ".yaml"), "_")
	return slices.ContainsFunc(csv.Spec.CustomResourceDefinitions.Owned, func(d v1alpha1.CRDDescription) bool {
		return d.Name == plural+"."+group
	})
}

// complete adds to the version what the other manifests say.
func complete(csv *v1alpha1.ClusterServiceVersion, deployment *appsv1.Deployment, sample string) error {
	example := map[string]any{}
	if err := read(sample, &example); err != nil {
		return err
	}
	examples, err := json.MarshalIndent([]any{example}, "", "  ")
	if err != nil {
		return err
	}
	csv.Annotations["alm-examples"] = string(examples)
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		containers[i].Image = csv.Annotations[image]
	}
	csv.Spec.RelatedImages = []v1alpha1.RelatedImage{{Name: "tenantry", Image: csv.Annotations[image]}}
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{
		StrategyName: v1alpha1.InstallStrategyNameDeployment,
		StrategySpec: v1alpha1.StrategyDetailsDeployment{
			// OLM creates the account, although it has no rights in the cluster.
			Permissions: []v1alpha1.StrategyDeploymentPermissions{{
				ServiceAccountName: deployment.Spec.Template.Spec.ServiceAccountName,
				Rules:              []rbacv1.PolicyRule{},
			}},
			DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: deployment.Name, Label: deployment.Labels, Spec: deployment.Spec}},
		},
	}
	return nil
}

// validate prints what is wrong with the bundle.
func validate(dir string) error {
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return err
	}
	version, err := kubernetes()
	if err != nil {
		return err
	}
	var failures []error
	for _, result := range validators.Validate(append(bundle.ObjectsToValidate(), map[string]string{"k8s-version": version})...) {
		for _, warning := range result.Warnings {
			fmt.Println(warning.Error())
		}
		for _, failure := range result.Errors {
			failures = append(failures, failure)
		}
	}
	return errors.Join(failures...)
}

func read(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// write writes an object without the fields that the server fills in.
func write(path string, object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	delete(fields, "status")
	if data, err = yaml.Marshal(prune(fields)); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// prune removes nulls, which the types write where they hold nothing.
func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, element := range value {
			if element == nil {
				delete(value, key)
				continue
			}
			value[key] = prune(element)
		}
	case []any:
		for i := range value {
			value[i] = prune(value[i])
		}
	}
	return value
}
