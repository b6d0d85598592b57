package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

const (
	group = "tenantry.io"
	// namespacesVariable has the namespaces that a Subscription names in its spec.config.env.
	namespacesVariable = "OPERATOR_NAMESPACES"
	// defaultVariable has the ControlPlane of Tenants that name none.
	defaultVariable = "OPERATOR_DEFAULT_CONTROL_PLANE"
)

// definition is a CustomResourceDefinition that the version owns.
type definition struct {
	resource          string // the plural
	sample            string // in config/samples
	name, description string // for people
}

func (d definition) fullName() string { return d.resource + "." + group }

// file is how controller-gen names the definition.
func (d definition) file() string { return group + "_" + d.resource + ".yaml" }

// currentVersion returns the version of the project, without its v.
func currentVersion(root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "internal", "version", "version.go"))
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(`(?m)^const Version = "v([^"]+)"$`).FindSubmatch(content)
	if match == nil {
		return "", errors.New("internal/version has no constant Version")
	}
	return string(match[1]), nil
}

// write writes bundle/manifests anew.
func (h *host) write(root, version string) error {
	out := filepath.Join(root, "bundle", "manifests")
	if err := errors.Join(os.RemoveAll(out), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := read(filepath.Join(root, "config", "manifests", "tenantry.clusterserviceversion.yaml"), csv); err != nil {
		return err
	}
	if err := errors.Join(h.complete(csv, version), addOwned(csv, root, out)); err != nil {
		return err
	}
	const rbac = "_rbac.authorization.k8s.io_v1_"
	for _, b := range h.rights.namespaced {
		if err := errors.Join(
			writeObject(filepath.Join(out, b.role.Name+rbac+"role.yaml"), b.role),
			writeObject(filepath.Join(out, b.binding.Name+rbac+"rolebinding.yaml"), b.binding),
		); err != nil {
			return err
		}
	}
	h.budget.Namespace = ""
	return errors.Join(
		writeObject(filepath.Join(out, "tenantry.clusterserviceversion.yaml"), csv),
		writeObject(filepath.Join(out, h.budget.Name+"_policy_v1_poddisruptionbudget.yaml"), h.budget),
	)
}

// complete adds to the version what the manifests of the host say.
func (h *host) complete(csv *v1alpha1.ClusterServiceVersion, version string) error {
	csv.Name = "tenantry.v" + version
	if err := csv.Spec.Version.UnmarshalJSON([]byte(`"` + version + `"`)); err != nil {
		return fmt.Errorf("reading the version %q: %w", version, err)
	}
	template, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": h.namespace.Name, "labels": h.namespace.Labels},
	})
	if err != nil {
		return err
	}
	pod := &h.deployment.Spec.Template.Spec
	operator := &pod.Containers[0]
	operator.Env = append(operator.Env, corev1.EnvVar{Name: namespacesVariable}, corev1.EnvVar{Name: defaultVariable})
	operator.Args = append(operator.Args, "--namespace=$("+namespacesVariable+")", "--default-control-plane=$("+defaultVariable+")")

	csv.Annotations["containerImage"] = operator.Image
	csv.Annotations["operatorframework.io/suggested-namespace"] = h.namespace.Name
	csv.Annotations["operatorframework.io/suggested-namespace-template"] = string(template)
	csv.Spec.RelatedImages = []v1alpha1.RelatedImage{{Name: "tenantry", Image: operator.Image}}
	details := v1alpha1.StrategyDetailsDeployment{
		// OLM makes the account for them. Rights that were here it would give in the whole cluster to
		// who is in a group for all namespaces.
		Permissions:     []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: pod.ServiceAccountName, Rules: []rbacv1.PolicyRule{}}},
		DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: h.deployment.Name, Label: h.deployment.Labels, Spec: h.deployment.Spec}},
	}
	if len(h.rights.cluster) > 0 {
		details.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: pod.ServiceAccountName, Rules: h.rights.cluster}}
	}
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: details}
	return nil
}

// addOwned adds the owned definitions to the version, with their samples, and writes them.
func addOwned(csv *v1alpha1.ClusterServiceVersion, root, out string) error {
	var examples []any
	for _, d := range owned {
		example := map[string]any{}
		if err := read(filepath.Join(root, "config", "samples", d.sample), &example); err != nil {
			return err
		}
		examples = append(examples, example)
		content, err := os.ReadFile(filepath.Join(root, "config", "crd", d.file()))
		if err != nil {
			return err
		}
		crd := struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct{ Name string }
			}
		}{}
		if err := yaml.Unmarshal(content, &crd); err != nil {
			return fmt.Errorf("reading %s: %w", d.file(), err)
		}
		for _, version := range crd.Spec.Versions {
			csv.Spec.CustomResourceDefinitions.Owned = append(csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{
				Name: d.fullName(), Version: version.Name, Kind: crd.Spec.Names.Kind, DisplayName: d.name, Description: d.description,
			})
		}
		if err := os.WriteFile(filepath.Join(out, d.file()), content, 0o644); err != nil {
			return err
		}
	}
	content, err := json.MarshalIndent(examples, "", "  ")
	csv.Annotations["alm-examples"] = string(content)
	return err
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

// writeObject writes an object without the fields that the server fills in.
func writeObject(path string, object any) error {
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
