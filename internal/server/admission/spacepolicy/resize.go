package spacepolicy

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/held"
)

// errNoRoom is that a pod cannot be noted on what it has asked for before.
var errNoRoom = errors.New("its annotations leave no room for what the platform notes of a resize to less: remove some, or make the pod again")

// PreparePod notes on a pod of a space what the host may still hold of what the pod asked for before, see package held
// and storage.Preparation. Nobody else writes that note, or takes it away.
func PreparePod(_ context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	var note held.Note
	var was held.Resources
	var noted int
	if pod, ok := before.(*core.Pod); ok && pod != nil {
		note, was, noted = held.Parse(pod.Annotations), resourcesOf(&pod.Spec), len(pod.Annotations[held.Annotation])
	}
	return func(after runtime.Object) error {
		pod, ok := after.(*core.Pod)
		switch {
		case !ok:
			return fmt.Errorf("unexpected object %T", after)
		case !n.IsSpace():
			return nil
		}
		text, err := noteOf(pod, note, was).Text()
		switch {
		case err != nil:
			return fmt.Errorf("noting what pod %q holds: %w", pod.Name, err)
		case text == "":
			delete(pod.Annotations, held.Annotation)
		default:
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, held.Annotation, text)
			if len(text) > noted && apivalidation.ValidateAnnotationsSize(pod.Annotations) != nil { // or nobody could write the pod any more
				return apierrors.NewForbidden(core.Resource("pods"), pod.Name, errNoRoom)
			}
		}
		return nil
	}
}

// noteOf returns what is to be noted on a pod which had a note, and asked for something, before.
func noteOf(pod *core.Pod, note held.Note, was held.Resources) held.Note {
	switch {
	case len(pod.Spec.SchedulingGates) > 0: // it has never been on the host
		return held.Note{}
	case resourcesOf(&pod.Spec).IsLess(was):
		all := held.Resources{}
		all.Add(note.Resources)
		all.Add(was)
		return held.Note{Generation: pod.Generation, Resources: all}
	case len(note.Resources) > 0 && isMade(pod):
		return held.Note{Generation: note.Generation}
	default:
		return note
	}
}

func isMade(pod *core.Pod) bool {
	versioned := &corev1.Pod{}
	err := corev1conversion.Convert_core_Pod_To_v1_Pod(pod, versioned, nil)
	return err == nil && held.IsMade(versioned)
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
