package spacepolicy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// PluginName is the name of the plugin in flags, metrics and messages.
const PluginName = "SpacePolicy"

// systemOnly says why, and what to do instead, for each resource that is created
// in the system space only.
var systemOnly = map[schema.GroupResource]string{
	{Group: "apps", Resource: "daemonsets"}:                  "a space has no nodes to run a pod on each of; use a Deployment",
	{Group: "extensions", Resource: "daemonsets"}:            "a space has no nodes to run a pod on each of; use a Deployment",
	{Resource: "nodes"}:                                      "nodes belong to the system space",
	{Group: "storage.k8s.io", Resource: "csinodes"}:          "nodes belong to the system space",
	{Group: "storage.k8s.io", Resource: "volumeattachments"}: "nodes and the volumes attached to them belong to the system space",
	{Group: "resource.k8s.io", Resource: "resourceslices"}:   "nodes and their devices belong to the system space",
}

// Register makes the plugin known by its name.
func Register(plugins *admission.Plugins) {
	plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) { return New(), nil })
}

// Plugin refuses in a space what is for the system space only.
type Plugin struct {
	*admission.Handler
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New returns the plugin.
func New() *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create)}
}

// Admit refuses before any other plugin, or a tenant's webhook, sees the object.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.Validate(ctx, a, o)
}

// Validate refuses what mutation has made of the object.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	n, err := tenant.From(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if n == tenant.System || a.GetSubresource() != "" {
		return nil
	}
	if reason, ok := systemOnly[a.GetResource().GroupResource()]; ok {
		return forbidden(a, reason)
	}
	if pod, ok := a.GetObject().(*core.Pod); ok {
		return checkPriority(a, pod)
	}
	return nil
}

// checkPriority keeps the two classes that are above all others to the
// namespace that upstream reserves for them.
func checkPriority(a admission.Attributes, pod *core.Pod) error {
	class := pod.Spec.PriorityClassName
	if a.GetNamespace() == metav1.NamespaceSystem || !slices.Contains(schedulingv1.SystemPriorityClassNames(), class) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("in a space, pods with priority class %s are allowed in namespace %s only; use a PriorityClass of your own",
		class, metav1.NamespaceSystem))
}

func forbidden(a admission.Attributes, reason string) error {
	return admission.NewForbidden(a, errors.New(PluginName+": "+reason))
}
