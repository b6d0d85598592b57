package sync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/tenant"
)

// missingDebuggers returns the indexes of the ephemeral containers that the host's pod is still to get, and what says
// which they are. None of them is ever changed or taken away.
func missingDebuggers(host, wanted *corev1.Pod) (missing []int, what string) {
	what = string(host.UID)
	for i := range wanted.Spec.EphemeralContainers {
		if name := wanted.Spec.EphemeralContainers[i].Name; !hasDebugger(host, name) {
			missing, what = append(missing, i), what+"/"+name
		}
	}
	return missing, what
}

func hasDebugger(host *corev1.Pod, name string) bool {
	return slices.ContainsFunc(host.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// addDebuggers adds to the host's pod the ephemeral containers that the space's has more.
func (s *syncer) addDebuggers(ctx context.Context, pod, host, wanted *corev1.Pod) error {
	missing, what := missingDebuggers(host, wanted)
	if len(missing) == 0 {
		s.backoffs.drop(itemWrite{itemOf(podItem, pod), writeDebuggers})
		return nil
	}
	if s.postponeRetry(pod, writeDebuggers, what) || s.postponePod(pod, writeDebuggers, wanted, len(missing)) {
		return nil
	}
	refused := map[string]string{}
	why, waits, err := s.prepareDebuggers(ctx, pod, wanted)
	if err != nil || waits {
		return err
	}
	for _, i := range missing {
		if why == "" {
			err = s.addDebugger(ctx, host, &wanted.Spec.EphemeralContainers[i])
		}
		switch name := pod.Spec.EphemeralContainers[i].Name; {
		case why != "":
			refused[name] = why
		case isRefused(err):
			refused[name] = podNotTaken(err, pod, host)
		case err != nil:
			return fmt.Errorf("adding the ephemeral container %q on the host: %w", name, err)
		}
	}
	return s.finishWrite(ctx, pod, writeDebuggers, what, refused)
}

// prepareDebuggers has the host have what ephemeral containers read, and gives them their variables. It returns why
// they cannot be there, empty if they can, and whether they wait for copies.
func (s *syncer) prepareDebuggers(ctx context.Context, pod, wanted *corev1.Pod) (why string, waits bool, err error) {
	home, t, err := s.homeOf(tenant.Flat(pod.Namespace))
	if err != nil {
		return "", false, err
	}
	if errs := rulesOf(t).Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec")); len(errs) > 0 {
		return errs.ToAggregate().Error(), false, nil
	}
	if why := tooLarge(wanted, 0); why != "" { // without the variables, which have their own bound
		return why, false, nil
	}
	if wait, err := s.ensureCopies(ctx, pod, home, s.copiesOf(home)); err != nil || wait > 0 {
		return "", true, err
	}
	services, err := s.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return "", false, fmt.Errorf("reading the Services of %q: %w", pod.Namespace, err)
	}
	s.options.SetVariables(wanted, pod, services)
	return "", false, nil
}

// addDebugger adds an ephemeral container to one pod of the host, and to no other one of its name.
func (s *syncer) addDebugger(ctx context.Context, host *corev1.Pod, c *corev1.EphemeralContainer) error {
	err := s.patchHost(ctx, host, nil, map[string]any{"spec": map[string]any{"ephemeralContainers": []*corev1.EphemeralContainer{c}}}, "ephemeralcontainers")
	if !apierrors.IsInvalid(err) {
		return err
	}
	// It is there, and the cache is behind: Services may give it other variables now.
	there, getErr := s.host.CoreV1().Pods(host.Namespace).Get(ctx, host.Name, metav1.GetOptions{})
	if getErr == nil && there.UID == host.UID && hasDebugger(there, c.Name) {
		return nil
	}
	return err
}

// patchHost writes a strategic merge patch of one pod of the host, and of no other one of its name. It is an
// errTooLarge if that is too large, or if the pod that is wanted would be. wanted is nil if the patch takes nothing of
// it.
func (s *syncer) patchHost(ctx context.Context, host, wanted *corev1.Pod, patch map[string]any, subresources ...string) error {
	written, err := patchFor(host.UID, patch)
	if err != nil {
		return err
	}
	if why := tooLarge(wanted, len(written)); why != "" {
		return errTooLarge(why)
	}
	_, err = s.host.CoreV1().Pods(host.Namespace).Patch(ctx, host.Name, types.StrategicMergePatchType, written, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
	if isOfAnother(err) {
		return apierrors.NewConflict(corev1.Resource("pods"), host.Name, err)
	}
	return err
}

// isOfAnother reports whether the host has another pod of the name: what it says of that is no refusal of this one.
func isOfAnother(err error) bool {
	return slices.ContainsFunc(detailsOf(err).Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// finishWrite has a write about a pod that runs on the host wait, so that it is not repeated while the cache is behind.
// An event in the space says what the host has refused of it, and why.
func (s *syncer) finishWrite(ctx context.Context, pod *corev1.Pod, w write, what string, refused map[string]string) error {
	s.backOff(pod, w, what, refused)
	if len(refused) == 0 {
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		all = append(all, name+": "+refused[name])
	}
	why := strings.Join(all, "; ")
	return errors.Join(fmt.Errorf("the host refuses what has been changed of a pod: %s", why), s.recordRefusal(ctx, pod, why))
}

// reportRefusals adds to the status of a pod that runs on the host what that has refused of its changes.
func (s *syncer) reportRefusals(status *corev1.PodStatus, pod, host, wanted *corev1.Pod) {
	i := itemOf(podItem, pod)
	if _, what := missingDebuggers(host, wanted); len(pod.Spec.EphemeralContainers) > 0 {
		refused := s.backoffs.refused(itemWrite{i, writeDebuggers}, what)
		for _, c := range pod.Spec.EphemeralContainers {
			if why, ok := refused[c.Name]; ok {
				status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, corev1.ContainerStatus{
					Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonRefused, Message: why}},
				})
			}
		}
	}
	if why, ok := s.backoffs.refused(itemWrite{i, writeResources}, resizeOf(host, wanted))[ofResources]; ok {
		// Not "Infeasible", of which quotas may count nothing: it is tried again.
		s.setCondition(status, pod, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reasonRefused, Message: why, ObservedGeneration: pod.Generation,
		})
	}
}
