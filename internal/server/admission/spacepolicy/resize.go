package spacepolicy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/held"
)

// PreparePod notes on a pod of a space what the host may still hold of what the pod asked for before, see package held
// and storage.Preparation. Nobody else writes that note, or takes it away.
func PreparePod(_ context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	var noted string
	var was held.Resources
	if pod, ok := before.(*core.Pod); ok && pod != nil {
		noted, was = pod.Annotations[held.Annotation], resourcesOf(&pod.Spec)
	}
	return func(after runtime.Object) error {
		pod, ok := after.(*core.Pod)
		switch {
		case !ok:
			return fmt.Errorf("unexpected object %T", after)
		case !n.IsSpace():
			return nil
		}
		note, err := noteOf(pod, noted, was)
		switch {
		case err != nil:
			return fmt.Errorf("noting what pod %q holds: %w", pod.Name, err)
		case note == "":
			delete(pod.Annotations, held.Annotation)
		default:
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, held.Annotation, note)
		}
		return nil
	}
}

// noteOf returns what is to be noted on a pod which had a note, and asked for something, before.
func noteOf(pod *core.Pod, noted string, was held.Resources) (string, error) {
	lowered := resourcesOf(&pod.Spec).IsLess(was)
	if noted == "" && !lowered || len(pod.Spec.SchedulingGates) > 0 { // a gated pod has never been on the host
		return "", nil
	}
	current := &corev1.Pod{}
	if err := corev1conversion.Convert_core_Pod_To_v1_Pod(pod, current, nil); err != nil {
		return "", err
	}
	if !lowered {
		if held.IsMade(current) {
			return "", nil
		}
		return noted, nil
	}
	all := held.Noted(map[string]string{held.Annotation: noted})
	if all == nil {
		all = held.Resources{}
	}
	all.Add(was)
	return all.Note()
}

// resourcesOf returns what a pod asks for.
func resourcesOf(spec *core.PodSpec) held.Resources {
	all := held.Resources{}
	add := func(name string, asked *core.ResourceRequirements) {
		var versioned corev1.ResourceRequirements
		if err := corev1conversion.Convert_core_ResourceRequirements_To_v1_ResourceRequirements(asked, &versioned, nil); err == nil { // there is nothing that it cannot say
			all[name] = versioned
		}
	}
	for _, containers := range [][]core.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			add(containers[i].Name, &containers[i].Resources)
		}
	}
	if spec.Resources != nil {
		add("", spec.Resources)
	}
	return all
}
