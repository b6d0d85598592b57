package spacepolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingconversion "k8s.io/kubernetes/pkg/apis/networking/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// ofSpec are subresources that change the specification of a pod.
var ofSpec = []string{"ephemeralcontainers", "resize"}

// checkWorkloads refuses pods, templates of pods, Services, claims and Ingresses, that a host cluster must not get,
// whoever brings them. What there was before may stay as it is. Where pods do not run, nothing is refused.
func (p *Plugin) checkWorkloads(a admission.Attributes, n tenant.Name) error {
	if p.rules.Workloads == nil {
		return nil
	}
	if reason := ofHost(a); reason != "" {
		return checkByPlatform(a, reason)
	}
	if found := unfitStatus(a); len(found) > 0 {
		return forbidden(a, found.ToAggregate().Error())
	}
	if a.GetSubresource() != "" && (a.GetResource().GroupResource() != core.Resource("pods") || !slices.Contains(ofSpec, a.GetSubresource())) {
		return nil
	}
	found, err := p.unfit(a.GetObject(), n)
	if err != nil {
		return forbidden(a, err.Error())
	}
	if pod, ok := a.GetObject().(*core.Pod); ok && a.GetOperation() == admission.Create && pod.Spec.NodeName != "" {
		found = append(found, field.Forbidden(field.NewPath("spec", "nodeName"), "the host cluster finds the node; remove it"))
	}
	if len(found) > 0 && a.GetOperation() == admission.Update {
		before, err := p.unfit(a.GetOldObject(), n)
		if err != nil {
			before = nil
		}
		found = slices.DeleteFunc(found, func(e *field.Error) bool {
			return slices.ContainsFunc(before, func(b *field.Error) bool { return b.Field == e.Field && b.Detail == e.Detail })
		})
	}
	if len(found) > 0 {
		return forbidden(a, found.ToAggregate().Error())
	}
	return nil
}

// prepareService has the load balancer of a Tenant without ports of the host's nodes have none: the API has it ask for
// some where nobody has said anything, and quotas would count them. One that had some keeps them.
func (p *Plugin) prepareService(a admission.Attributes, n tenant.Name) {
	service, ok := a.GetObject().(*core.Service)
	if !ok || p.rules.Workloads == nil || a.GetSubresource() != "" || service.Spec.Type != core.ServiceTypeLoadBalancer || p.rules.Workloads(n).NodePorts {
		return
	}
	if before, ok := a.GetOldObject().(*core.Service); ok && before != nil && before.Spec.Type == core.ServiceTypeLoadBalancer {
		if had := before.Spec.AllocateLoadBalancerNodePorts; had == nil || *had {
			return
		}
	}
	service.Spec.AllocateLoadBalancerNodePorts = new(false)
}

// checkSyncerToken refuses to the syncer any token but those of pods of tenants: the server makes these for the pod's
// own service account alone, and they end with the pod. So no mistake about a pod gives it the token of somebody else.
func checkSyncerToken(a admission.Attributes, n tenant.Name) error {
	request, ok := a.GetObject().(*authentication.TokenRequest)
	if !ok || a.GetUserInfo().GetName() != tenant.Syncer {
		return nil
	}
	if ref := request.Spec.BoundObjectRef; n == tenant.System || ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" || ref.Name == "" || ref.UID == "" {
		return forbidden(a, "the syncer makes tokens of tenants' pods alone, by their names and UIDs")
	}
	return nil
}

// ofHost returns why a request says what the host is to say, empty if it does not.
func ofHost(a admission.Attributes) string {
	switch _, binds := a.GetObject().(*core.Binding); {
	case binds && !equality.Semantic.DeepEqual(a.GetObject(), a.GetOldObject()):
		return "the host cluster finds the nodes of pods; leave the pod unbound"
	case changesMarks(a):
		return "annotations below " + names.Prefix + " say where an object is on the host cluster, and what is wanted there; leave them as they are"
	case changesStatus(a):
		return "status is what the host cluster says of the pod; change nothing but conditions of your own types, such as those of readiness gates"
	default:
		return ofStorage(a)
	}
}

// changesMarks reports whether a request, by whatever subresource, changes annotations of the platform. New objects may
// have them, as copies of others do, but for those by which a namespace is wanted on the host, and gets its name there.
// Of Services the storage keeps them.
func changesMarks(a admission.Attributes) bool {
	now, ok := a.GetObject().(metav1.Object)
	if !ok {
		return false
	}
	if a.GetOperation() != admission.Update {
		_, isNamespace := now.(*core.Namespace)
		return isNamespace && now.GetAnnotations()[names.WantedAnnotation]+now.GetAnnotations()[names.SaltAnnotation] != ""
	}
	if _, isService := now.(*core.Service); isService {
		return false
	}
	before, ok := a.GetOldObject().(metav1.Object)
	return ok && !maps.Equal(marksOf(now), marksOf(before))
}

// keepMarks gives a tenant's update the annotations of the platform that it has left out: clients replace objects, and
// all annotations of one, by what they know of it.
func (p *Plugin) keepMarks(a admission.Attributes) {
	now, ok := a.GetObject().(metav1.Object)
	before, was := a.GetOldObject().(metav1.Object)
	if p.rules.Workloads == nil || !ok || !was || a.GetOperation() != admission.Update || checkByPlatform(a, "") == nil {
		return
	}
	if marks := marksOf(before); len(marks) > 0 {
		maps.Copy(marks, now.GetAnnotations())
		now.SetAnnotations(marks)
	}
}

// marksOf returns the annotations of an object that are the platform's.
func marksOf(o metav1.Object) map[string]string {
	marks := maps.Clone(o.GetAnnotations())
	maps.DeleteFunc(marks, func(key, _ string) bool { return !strings.HasPrefix(key, names.Prefix) })
	return marks
}

// checkByPlatform refuses to anybody but system users what is for these, for a reason.
func checkByPlatform(a admission.Attributes, reason string) error {
	user, err := tenant.OfUser(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if user == tenant.System {
		return nil
	}
	return forbidden(a, reason)
}

// changesStatus reports whether a change is about what the host says of a pod: by a phase of its own a tenant would
// have pods that run, and that no quota counts. Conditions that neither the scheduler nor the kubelet writes are free,
// for readiness gates.
func changesStatus(a admission.Attributes) bool {
	now, ok := a.GetObject().(*core.Pod)
	before, was := a.GetOldObject().(*core.Pod)
	return ok && was && before != nil && a.GetSubresource() == "status" && !equality.Semantic.DeepEqual(hostStatus(now), hostStatus(before))
}

// unfitStatus returns conditions whose status is set to what is none: hosts get those of readiness gates, and the API
// lets them be any text.
func unfitStatus(a admission.Attributes) (errs field.ErrorList) {
	now, ok := a.GetObject().(*core.Pod)
	before, was := a.GetOldObject().(*core.Pod)
	if !ok || !was || before == nil || a.GetSubresource() != "status" {
		return nil
	}
	for i, c := range now.Status.Conditions {
		stays := slices.ContainsFunc(before.Status.Conditions, func(b core.PodCondition) bool { return b.Type == c.Type && b.Status == c.Status })
		if !stays && !translate.IsConditionStatus(corev1.ConditionStatus(c.Status)) {
			errs = append(errs, field.Forbidden(field.NewPath("status", "conditions").Index(i).Child("status"), "the status of a condition is True, False or Unknown; use one of these"))
		}
	}
	return errs
}

// hostStatus returns what a host says of a pod.
func hostStatus(pod *core.Pod) core.PodStatus {
	status := pod.Status
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c core.PodCondition) bool {
		return !translate.IsHostCondition(corev1.PodConditionType(c.Type))
	})
	return status
}

// unfit returns what a host must not get of a Service, claim or Ingress, or of an object's pod or templates.
func (p *Plugin) unfit(obj runtime.Object, n tenant.Name) (field.ErrorList, error) {
	switch o := obj.(type) {
	case *core.Service:
		var versioned corev1.Service
		if err := corev1conversion.Convert_core_Service_To_v1_Service(o, &versioned, nil); err != nil {
			return nil, fmt.Errorf("reading the Service: %w", err)
		}
		return p.rules.Workloads(n).CheckService(&versioned), nil
	case *networking.Ingress:
		var versioned networkingv1.IngressSpec
		if err := networkingconversion.Convert_networking_IngressSpec_To_v1_IngressSpec(&o.Spec, &versioned, nil); err != nil {
			return nil, fmt.Errorf("reading spec: %w", err)
		}
		return p.rules.Workloads(n).CheckIngress(&o.ObjectMeta, &versioned, field.NewPath("spec")), nil
	}
	found, err := unfitClaims(obj)
	meta, spec, path := podOf(obj)
	if spec == nil || err != nil {
		return found, err
	}
	var versioned corev1.PodSpec
	if err := corev1conversion.Convert_core_PodSpec_To_v1_PodSpec(spec, &versioned, nil); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return append(found, p.rules.Workloads(n).Check(meta, &versioned, field.NewPath(path))...), nil
}
