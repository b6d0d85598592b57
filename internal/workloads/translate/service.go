package translate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// LeastBytes is as how many bytes a small object counts at least.
	LeastBytes = 4 << 10
	// EntryBytes is what a host stores of each entry of a list or a map beside it: metadata.managedFields name them one
	// by one.
	EntryBytes = 128
)

// maxSourceRanges is how many ranges of addresses a load balancer lets in at most: every node has rules for each of
// them.
const maxSourceRanges = 128

// serviceLabels are those that a host's Service has of the space's: they say who looks after it. Others, and
// annotations but those of load balancers that are granted, could tell the host's components what to do.
var serviceLabels = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

// CheckService returns what of a Service a host must not get.
func (r Rules) CheckService(service *corev1.Service) field.ErrorList {
	spec, path := &service.Spec, field.NewPath("spec")
	errs := checkFields(reflect.ValueOf(spec).Elem(), path)
	switch {
	case spec.Type == corev1.ServiceTypeLoadBalancer:
		errs = append(errs, r.checkBalancer(service, path)...)
	case spec.Type == corev1.ServiceTypeNodePort && !r.NodePorts:
		errs = append(errs, noNodePorts(path.Child("type"), "use type ClusterIP"))
	}
	if !r.NodePorts && spec.Type != corev1.ServiceTypeNodePort {
		for i := range spec.Ports {
			if spec.Ports[i].NodePort != 0 {
				errs = append(errs, noNodePorts(path.Child("ports").Index(i).Child("nodePort"), "remove it"))
			}
		}
	}
	if len(spec.Selector) == 0 && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Forbidden(path.Child("selector"), "endpoints that a tenant chooses are not there yet for Services on a host cluster; "+
			"select pods, or use type ExternalName"))
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Selector)) {
		if strings.HasPrefix(key, names.Prefix) {
			errs = append(errs, field.Forbidden(path.Child("selector").Key(key), "labels below "+names.Prefix+" are the platform's; remove it"))
		}
	}
	return errs
}

func noNodePorts(path *field.Path, instead string) *field.Error {
	return field.Forbidden(path, "ports of the host's nodes are not for this Tenant; "+instead+
		", or ask the platform's administrators for workloads.nodePorts of the Tenant")
}

// hasAllocated reports whether a Service has ports of nodes for its load balancer, as is the default.
func hasAllocated(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && ptr.Deref(spec.AllocateLoadBalancerNodePorts, true)
}

// checkBalancer returns what of a Service with a load balancer a host must not get.
func (r Rules) checkBalancer(service *corev1.Service, path *field.Path) field.ErrorList {
	spec := &service.Spec
	errs := checkAnnotations(&service.ObjectMeta, r.LoadBalancerAnnotations, forBalancers)
	if !r.LoadBalancers {
		errs = append(errs, field.Forbidden(path.Child("type"), "load balancers of the host are not for this Tenant; use type ClusterIP, "+
			"or ask the platform's administrators for workloads.loadBalancers of the Tenant"))
	}
	if len(spec.LoadBalancerSourceRanges) > maxSourceRanges {
		errs = append(errs, field.Forbidden(path.Child("loadBalancerSourceRanges"), fmt.Sprintf("on a host cluster, a load balancer lets in at most %d ranges; join some", maxSourceRanges)))
	}
	if r.NodePorts {
		return errs
	}
	if hasAllocated(spec) {
		errs = append(errs, noNodePorts(path.Child("allocateLoadBalancerNodePorts"), "set it to false"))
	}
	if spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal { // which has one for health checks
		errs = append(errs, noNodePorts(path.Child("externalTrafficPolicy"), "use Cluster"))
	}
	return errs
}

// CheckServiceChange returns what a host must not get of a changed Service and had not before. Annotations that it has,
// and that are not granted any more, are among it: the change would take them away there.
func (r Rules) CheckServiceChange(service, before *corev1.Service) field.ErrorList {
	was := r.CheckService(before)
	errs := slices.DeleteFunc(r.CheckService(service), func(e *field.Error) bool {
		return !strings.HasPrefix(e.Field, annotationsPath) && slices.ContainsFunc(was, func(b *field.Error) bool { return b.Field == e.Field && b.Detail == e.Detail })
	})
	if !r.NodePorts {
		errs = append(errs, checkMoreNodePorts(&service.Spec, &before.Spec)...)
	}
	return errs
}

// checkMoreNodePorts refuses node ports that a Service has not had.
func checkMoreNodePorts(spec, before *corev1.ServiceSpec) (errs field.ErrorList) {
	path, with := field.NewPath("spec", "ports"), 0
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.NodePort != 0 && !slices.ContainsFunc(before.Ports, func(p corev1.ServicePort) bool { return p.NodePort == port.NodePort && p.Protocol == port.Protocol }) {
			errs = append(errs, noNodePorts(path.Index(i).Child("nodePort"), "remove it"))
		}
	}
	for i := range before.Ports {
		if before.Ports[i].NodePort != 0 {
			with++
		}
	}
	if (spec.Type == corev1.ServiceTypeNodePort || hasAllocated(spec)) && len(spec.Ports) > with {
		errs = append(errs, noNodePorts(path, fmt.Sprintf("have at most the %d ports that have one", with)))
	}
	return errs
}

// Service returns the Service of the host for one of a space, which Rules.CheckService has nothing against. It asks for
// the addresses and ports that the space's has, and lets the host choose those that it has not. It selects nothing: the
// syncer makes its slices, within the bounds of each tenant. The result shares nothing with its input.
func (r Rules) Service(service *corev1.Service, home names.Namespace) *corev1.Service {
	host := &corev1.Service{
		ObjectMeta: home.Meta(service.Name, service),
		Spec:       *service.Spec.DeepCopy(),
	}
	for _, key := range serviceLabels {
		if value, ok := service.Labels[key]; ok {
			host.Labels[key] = value
		}
	}
	host.Spec.Selector, host.Spec.ExternalName = nil, ""
	if host.Spec.ClusterIP == corev1.ClusterIPNone && host.Spec.IPFamilyPolicy == nil {
		host.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack) // without a selector, a host would give it both families
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		host.Annotations[names.ExternalNameAnnotation], host.Spec.ExternalName = service.Spec.ExternalName, names.NoHost
	}
	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		copyAnnotations(host.Annotations, service.Annotations, r.LoadBalancerAnnotations)
	}
	host.Annotations[names.HashAnnotation] = serviceHash(host)
	return host
}

// KeepHosts has a host's Service, which is to be as wanted, keep what components of the host have put on it, whatever
// of theirs wanted has: of a load balancer also the class, which does not change any more when a webhook has chosen it,
// and the address. What there is of a load balancer ends with it: by it, components know which addresses are taken, and
// another one may have the address by now. They need it until they have taken the load balancer away and remove their
// finalizers.
func KeepHosts(wanted, there *corev1.Service) {
	dropOthers(wanted)
	delete(wanted.Annotations, names.BalancerAnnotation)
	wanted.Finalizers, wanted.Spec.LoadBalancerIP, wanted.Spec.LoadBalancerClass = there.Finalizers, "", nil
	has, had := wanted.Spec.Type == corev1.ServiceTypeLoadBalancer, there.Spec.Type == corev1.ServiceTypeLoadBalancer
	ends := !has && (had || there.Annotations[names.BalancerAnnotation] != "")
	if has == had && !ends || ends && len(there.Finalizers) > 0 {
		KeepOthers(wanted, there)
	}
	if has && had {
		wanted.Spec.LoadBalancerIP, wanted.Spec.LoadBalancerClass = there.Spec.LoadBalancerIP, there.Spec.LoadBalancerClass
	}
	if ends {
		wanted.Annotations[names.BalancerAnnotation] = "true"
	}
}

// LostBalancer reports whether components of the host have taken away the load balancer that a host's Service had, and
// whether it still has something of that.
func LostBalancer(there *corev1.Service) (lost, marked bool) {
	lost = there.Annotations[names.BalancerAnnotation] != "" && len(there.Finalizers) == 0
	return lost, lost && (dropOthers(there.DeepCopy()) || there.Spec.LoadBalancerIP != "")
}

// serviceHash returns the hash of what of a host's Service is not the host's to choose.
func serviceHash(host *corev1.Service) string {
	spec := host.Spec.DeepCopy()
	spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy, spec.HealthCheckNodePort = "", nil, nil, nil, 0
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	hashed := map[string]any{"labels": host.Labels, "spec": spec}
	if name, ok := host.Annotations[names.ExternalNameAnnotation]; ok {
		hashed["externalName"] = name
	}
	if keys, ok := host.Annotations[names.KeysAnnotation]; ok {
		copied := map[string]string{}
		for key := range strings.SplitSeq(keys, ",") {
			copied[key] = host.Annotations[key]
		}
		hashed["annotations"] = copied
	}
	return names.Hash(hashed)
}

// Given is what a host has chosen of a Service.
type Given struct {
	ClusterIPs []string
	// NodePorts are by the order of the ports.
	NodePorts []int32
	// HealthCheckNodePort is that of a load balancer with externalTrafficPolicy Local, otherwise 0.
	HealthCheckNodePort int32
}

// GivenOf returns what has been chosen of a Service.
func GivenOf(service *corev1.Service) Given {
	g := Given{ClusterIPs: service.Spec.ClusterIPs, HealthCheckNodePort: service.Spec.HealthCheckNodePort}
	for i := range service.Spec.Ports {
		g.NodePorts = append(g.NodePorts, service.Spec.Ports[i].NodePort)
	}
	return g
}

// Equal reports whether two are the same.
func (g Given) Equal(other Given) bool {
	return slices.Equal(g.ClusterIPs, other.ClusterIPs) && slices.Equal(g.NodePorts, other.NodePorts) && g.HealthCheckNodePort == other.HealthCheckNodePort
}

// ServiceBytes returns how many bytes a host stores when one of its Services is made or changed.
func ServiceBytes(host *corev1.Service) int {
	entries := len(host.Spec.Ports) + len(host.Labels) + len(host.Annotations)
	return max(host.Size()+EntryBytes*entries, LeastBytes)
}
