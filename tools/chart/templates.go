package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// expressions are what stands in a template for a name that is put into an object as a value.
var expressions = map[string]string{
	"HELM_NAMESPACE":   "{{ $.Release.Namespace }}",
	"HELM_EACH":        "{{ $namespace }}",
	"HELM_REPLICAS":    "{{ .Values.replicas }}",
	"HELM_IMAGE":       `{{ include "tenantry.image" . | quote }}`,
	"HELM_PULL_POLICY": "{{ .Values.image.pullPolicy }}",
	"HELM_RESOURCES":   "{{ toJson .Values.resources }}",
}

// lines are what stands for a whole line, at its indentation.
var lines = map[string]string{
	"HELM_LABELS": `{{- include "tenantry.labels" $ | nindent INDENT }}`,
	"HELM_CONTROL_PLANES": "{{- range .Values.namespaces }}\n- --namespace={{ . }}\n{{- end }}\n" +
		"{{- with .Values.defaultControlPlane }}\n{{- include \"tenantry.looksAfter\" (list $ .) }}\n- --default-control-plane={{ . }}\n{{- end }}",
	"HELM_SCHEDULING": `{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.Values $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}`,
}

// installed is the namespace of config/default.
const installed = "tenantry-system"

// object is one of Kubernetes', in the fields of its YAML.
type object map[string]any

func (o object) kind() string           { return o["kind"].(string) }
func (o object) metadata() object       { return o.in("metadata") }
func (o object) name() string           { return o.metadata()["name"].(string) }
func (o object) in(field string) object { return object(o[field].(map[string]any)) }

// build returns what kubectl would apply, but the namespace, which Helm makes.
func build(kustomization string) ([]object, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomization)
	if err != nil {
		return nil, fmt.Errorf("building %s: %w", kustomization, err)
	}
	var objects []object
	for _, resource := range resources.Resources() {
		content, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		o := object{}
		if err := yaml.Unmarshal(content, &o); err != nil {
			return nil, err
		}
		if o.kind() != "Namespace" {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// writeTemplates writes a file for each kind, in place of those that there are.
func writeTemplates(to string, objects []object) error {
	old, err := filepath.Glob(filepath.Join(to, "templates", "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	files := map[string][]string{}
	for _, o := range objects {
		text, err := template(o)
		if err != nil {
			return fmt.Errorf("%s %q: %w", o.kind(), o.name(), err)
		}
		file := strings.ToLower(o.kind()) + ".yaml"
		files[file] = append(files[file], text)
	}
	for file, texts := range files {
		content := "{{- /* Made from config/default by `make chart`. */ -}}\n" + strings.Join(texts, "---\n")
		if err := os.WriteFile(filepath.Join(to, "templates", file), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// template returns the template of an object.
func template(o object) (string, error) {
	before, after, namespace := "", "", "HELM_NAMESPACE"
	switch o.kind() {
	case "CustomResourceDefinition":
		o.metadata().in("annotations")["helm.sh/resource-policy"] = "keep"
		before, after = "{{- if .Values.crds.install }}\n", "{{- end }}\n"
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		before, after = "{{- if .Values.deletionPolicy.install }}\n", "{{- end }}\n"
	case "Deployment":
		if err := parametrize(o.in("spec")); err != nil {
			return "", err
		}
	case "RoleBinding":
		// A ClusterRole is bound in each namespace that the operator works in, a Role in its own.
		if o.in("roleRef")["kind"] == "ClusterRole" {
			before = "{{- range $namespace := splitList \" \" (include \"tenantry.namespaces\" .) }}\n---\n"
			after, namespace = "{{- end }}\n", "HELM_EACH"
		}
	}
	setNamespaces(o, namespace)
	if o.metadata()["labels"] == nil {
		o.metadata()["labels"] = map[string]any{}
	}
	o.metadata().in("labels")["HELM_LABELS"] = ""
	content, err := yaml.Marshal(o)
	if err != nil {
		return "", err
	}
	text, err := fill(strings.ReplaceAll(string(content), "{{", `{{ "{{" }}`))
	return before + text + after, err
}

// setNamespaces puts a namespace in place of that of config/, and that of the release in
// place of the account's. What is in another namespace, as events of Tenants are, stays there.
func setNamespaces(o object, namespace string) {
	if o.metadata()["namespace"] == installed {
		o.metadata()["namespace"] = namespace
	}
	subjects, _ := o["subjects"].([]any)
	for _, subject := range subjects {
		subject.(map[string]any)["namespace"] = "HELM_NAMESPACE"
	}
}

// parametrize puts values into the Deployment of the operator.
func parametrize(spec object) error {
	pod := spec.in("template").in("spec")
	containers := pod["containers"].([]any)
	if len(containers) != 1 {
		return errors.New("it has not one container: say in tools/chart which values each has")
	}
	operator := object(containers[0].(map[string]any))
	for _, variable := range operator["env"].([]any) {
		if v := object(variable.(map[string]any)); v["value"] == operator["image"] {
			v["value"] = "HELM_IMAGE"
		}
	}
	operator["image"], operator["imagePullPolicy"], operator["resources"] = "HELM_IMAGE", "HELM_PULL_POLICY", "HELM_RESOURCES"
	operator["args"] = append(operator["args"].([]any), "HELM_CONTROL_PLANES")
	pod["HELM_SCHEDULING"] = ""
	spec["replicas"] = "HELM_REPLICAS"
	return nil
}

var (
	marked   = regexp.MustCompile(`(?m)^( *)(?:- )?(HELM_[A-Z_]+)(?:: "")?$`)
	anywhere = regexp.MustCompile(`HELM_[A-Z_]+`)
)

// fill puts expressions in place of their names.
func fill(text string) (string, error) {
	text = marked.ReplaceAllStringFunc(text, func(line string) string {
		parts := marked.FindStringSubmatch(line)
		expression, found := lines[parts[2]]
		if !found {
			return line
		}
		expression = strings.ReplaceAll(expression, "INDENT", strconv.Itoa(len(parts[1])))
		return parts[1] + strings.ReplaceAll(expression, "\n", "\n"+parts[1])
	})
	text = anywhere.ReplaceAllStringFunc(text, func(name string) string { return cmp.Or(expressions[name], name) })
	if left := anywhere.FindString(text); left != "" {
		return "", fmt.Errorf("no expression is known for %s", left)
	}
	return text, nil
}
