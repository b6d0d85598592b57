package connect

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// hostOptions returns options that name the container of the host's pod which is the one of the space's that a client
// asks for. The host's pod may have others, which its administrators and webhooks have put into it: those are not the
// tenant's.
func hostOptions(options runtime.Object, pod *core.Pod) (runtime.Object, error) {
	options = options.DeepCopyObject()
	var container *string
	switch o := options.(type) {
	case *core.PodExecOptions:
		container = &o.Container
	case *core.PodAttachOptions:
		container = &o.Container
	case *core.PodLogOptions:
		container = &o.Container
	case *core.PodPortForwardOptions:
		return options, nil
	default:
		return nil, fmt.Errorf("unexpected options %T", options)
	}
	var all []string
	if *container == "" && len(pod.Spec.Containers) == 1 {
		*container = pod.Spec.Containers[0].Name
	}
	for c, kind := range podutil.ContainerIter(&pod.Spec, podutil.AllContainers) {
		all = append(all, c.Name)
		if c.Name != *container {
			continue
		}
		*container = hostContainerName(c.Name, kind)
		return options, nil
	}
	if *container == "" {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, all))
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", *container, pod.Name))
}

// hostContainerName returns what a container of the space's pod is called in the host's.
func hostContainerName(name string, kind podutil.ContainerType) string {
	if kind == podutil.EphemeralContainers {
		return names.Debugger(name)
	}
	return name
}
