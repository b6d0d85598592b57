package spacepolicy

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// podOf returns the metadata of the pod in an object of a built-in resource, or of those that the object makes, and the
// spec with its path. They are nil if there is none.
func podOf(obj runtime.Object) (*metav1.ObjectMeta, *core.PodSpec, string) {
	const path = "spec.template.spec"
	switch o := obj.(type) {
	case *core.Pod:
		return &o.ObjectMeta, &o.Spec, "spec"
	case *core.PodTemplate:
		return templateAt(&o.Template, "template.spec")
	case *core.ReplicationController:
		return templateAt(o.Spec.Template, path)
	case *apps.Deployment:
		return templateAt(&o.Spec.Template, path)
	case *apps.ReplicaSet:
		return templateAt(&o.Spec.Template, path)
	case *apps.StatefulSet:
		return templateAt(&o.Spec.Template, path)
	case *batch.Job:
		return templateAt(&o.Spec.Template, path)
	case *batch.CronJob:
		return templateAt(&o.Spec.JobTemplate.Spec.Template, "spec.jobTemplate.spec.template.spec")
	default:
		return nil, nil, ""
	}
}

func templateAt(template *core.PodTemplateSpec, path string) (*metav1.ObjectMeta, *core.PodSpec, string) {
	if template == nil {
		return nil, nil, ""
	}
	return &template.ObjectMeta, &template.Spec, path
}

// customChoices returns the fields that select nodes against the rules in the configured pod
// templates of a custom resource.
func (p *Plugin) customChoices(resource schema.GroupResource, obj *unstructured.Unstructured, rules *v1alpha1.NodePlacement) ([]choice, error) {
	found := &finder{rules: rules}
	for _, configured := range p.config.PodTemplates {
		if configured.Group != resource.Group || configured.Resource != resource.Resource {
			continue
		}
		for _, path := range configured.Paths {
			content, exists, err := unstructured.NestedFieldNoCopy(obj.Object, strings.Split(path+".spec", ".")...)
			if err != nil {
				return nil, fmt.Errorf("%s is not a pod template: %w", path, err)
			}
			if !exists {
				continue
			}
			fields, ok := content.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s is not a pod template: its spec is no object", path)
			}
			var versioned corev1.PodSpec
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &versioned); err != nil {
				return nil, fmt.Errorf("%s is not a pod template: %w", path, err)
			}
			var spec core.PodSpec
			if err := corev1conversion.Convert_v1_PodSpec_To_core_PodSpec(&versioned, &spec, nil); err != nil {
				return nil, fmt.Errorf("%s is not a pod template: %w", path, err)
			}
			found.inPod(&spec, path+".spec")
		}
	}
	return found.sorted(), nil
}
