package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// leftOut are the kinds of config/default that are not in the bundle.
var leftOut = []string{
	// OLM makes the account, and ClusterRoles of the rights in the version.
	"ServiceAccount",
	// OLMs before 0.33 refuse a bundle that has one. Nobody calls the operator but the kubelet.
	"NetworkPolicy",
	// OLM does not take them. The operator makes a lease itself, and an administrator applies policies.
	"Lease", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
}

// host is what config/default installs on a host cluster.
type host struct {
	namespace    corev1.Namespace
	deployment   appsv1.Deployment
	budget       policyv1.PodDisruptionBudget
	rights       rights
	roles        map[string][]rbacv1.PolicyRule // by kind and name
	roleBindings []rbacv1.RoleBinding
	bindings     []rbacv1.ClusterRoleBinding
}

// rights are those of the operator's account: in its own namespace, and in the whole cluster.
type rights struct {
	namespaced []bound
	cluster    []rbacv1.PolicyRule
}

// bound is a role that is bound to the operator's account.
type bound struct {
	role    rbacv1.Role
	binding rbacv1.RoleBinding
}

// readHost reads what kubectl would apply.
func readHost(root string) (*host, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", "default"))
	if err != nil {
		return nil, fmt.Errorf("building config/default: %w", err)
	}
	var objects []string
	for _, resource := range resources.Resources() {
		content, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		objects = append(objects, string(content))
	}
	h, err := hostOf(objects...)
	if err != nil {
		return nil, fmt.Errorf("config/default: %w", err)
	}
	return h, nil
}

// hostOf returns what objects in YAML are.
func hostOf(objects ...string) (*host, error) {
	h := &host{roles: map[string][]rbacv1.PolicyRule{}}
	for _, content := range objects {
		object := metav1.PartialObjectMetadata{}
		if err := yaml.Unmarshal([]byte(content), &object); err != nil {
			return nil, err
		}
		if err := h.add(object.Kind, object.Name, []byte(content)); err != nil {
			return nil, fmt.Errorf("%s %q: %w", object.Kind, object.Name, err)
		}
	}
	if h.deployment.Name == "" || h.namespace.Name == "" || h.budget.Name == "" {
		return nil, errors.New("the Namespace, the Deployment or the PodDisruptionBudget is missing")
	}
	return h, h.collectRights()
}

// add takes an object, of a kind of which it is known what becomes of it in a bundle.
func (h *host) add(kind, name string, content []byte) error {
	switch kind {
	case "CustomResourceDefinition":
		if !slices.ContainsFunc(owned, func(d definition) bool { return d.fullName() == name }) {
			return errors.New("the host gets a definition that the bundle does not own: add it to the table in tools/bundle")
		}
		return nil
	case "Namespace":
		return yaml.UnmarshalStrict(content, &h.namespace)
	case "Deployment":
		if h.deployment.Name != "" {
			return fmt.Errorf("there is %q already", h.deployment.Name)
		}
		return yaml.UnmarshalStrict(content, &h.deployment)
	case "PodDisruptionBudget":
		return yaml.UnmarshalStrict(content, &h.budget)
	case "Role", "ClusterRole":
		role := rbacv1.ClusterRole{}
		err := yaml.UnmarshalStrict(content, &role)
		h.roles[kind+"/"+name] = role.Rules
		return err
	case "RoleBinding":
		binding := rbacv1.RoleBinding{}
		err := yaml.UnmarshalStrict(content, &binding)
		h.roleBindings = append(h.roleBindings, binding)
		return err
	case "ClusterRoleBinding":
		binding := rbacv1.ClusterRoleBinding{}
		err := yaml.UnmarshalStrict(content, &binding)
		h.bindings = append(h.bindings, binding)
		return err
	}
	if !slices.Contains(leftOut, kind) {
		return errors.New("nothing says what a bundle does with this kind: see leftOut in tools/bundle")
	}
	return nil
}

// collectRights sets what the bindings give to the operator. Bindings of anybody else, and
// rights in the whole cluster on anything but Tenants, are errors. A bundle cannot have what is
// bound in another namespace than that of the installation.
func (h *host) collectRights() error {
	for _, b := range h.roleBindings {
		rules, err := h.rules(b.RoleRef, b.Subjects)
		if err != nil {
			return fmt.Errorf("RoleBinding %q: %w", b.Name, err)
		}
		if b.Namespace != h.namespace.Name {
			continue
		}
		h.rights.namespaced = append(h.rights.namespaced, own(b, rules))
	}
	for _, b := range h.bindings {
		rules, err := h.rules(b.RoleRef, b.Subjects)
		if err != nil {
			return fmt.Errorf("ClusterRoleBinding %q: %w", b.Name, err)
		}
		for _, rule := range rules {
			if !onTenants(rule) {
				return fmt.Errorf("ClusterRoleBinding %q gives more in the whole cluster than to read and change Tenants: bind the role by a RoleBinding (%v)", b.Name, rule)
			}
		}
		h.rights.cluster = append(h.rights.cluster, rules...)
	}
	if len(h.rights.namespaced) == 0 {
		return errors.New("no RoleBinding gives the operator any right")
	}
	return nil
}

// onTenants reports whether a rule is about nothing but Tenants, their status and their finalizers,
// and lets nobody make or delete one.
func onTenants(rule rbacv1.PolicyRule) bool {
	within := func(all []string, allowed ...string) bool {
		return len(all) > 0 && !slices.ContainsFunc(all, func(s string) bool { return !slices.Contains(allowed, s) })
	}
	return within(rule.APIGroups, group) && within(rule.Resources, "tenants", "tenants/status", "tenants/finalizers") &&
		within(rule.Verbs, "get", "list", "watch", "update", "patch") && len(rule.NonResourceURLs) == 0
}

// own returns a Role and its binding, where OLM puts them: into the namespace of the
// installation. A ClusterRole would be left when the bundle is uninstalled.
func own(binding rbacv1.RoleBinding, rules []rbacv1.PolicyRule) bound {
	binding.Namespace = ""
	binding.RoleRef.Kind = "Role"
	return bound{
		role: rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Name: binding.RoleRef.Name, Labels: binding.Labels},
			Rules:      rules,
		},
		binding: binding,
	}
}

// rules returns those of the role that is bound to the operator's account.
func (h *host) rules(role rbacv1.RoleRef, subjects []rbacv1.Subject) ([]rbacv1.PolicyRule, error) {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: h.deployment.Spec.Template.Spec.ServiceAccountName, Namespace: h.namespace.Name}
	if len(subjects) != 1 || subjects[0] != account {
		return nil, fmt.Errorf("it is not for the account %q alone", account.Name)
	}
	rules := h.roles[role.Kind+"/"+role.Name]
	if len(rules) == 0 {
		return nil, fmt.Errorf("%s %q is not there", role.Kind, role.Name)
	}
	return rules, nil
}
