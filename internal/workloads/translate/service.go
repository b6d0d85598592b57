package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// serviceLabels are those that a host's Service has of the space's: they say who looks after it. Others, and all
// annotations, could tell the host's components what to do.
var serviceLabels = []string{"service.kubernetes.io/service-proxy-name", corev1.IsHeadlessService}

// CheckService returns what of a Service a host must not get. path is that of its spec.
func (r Rules) CheckService(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := checkFields(reflect.ValueOf(spec).Elem(), path)
	switch {
	case spec.Type == corev1.ServiceTypeLoadBalancer:
		errs = append(errs, field.Forbidden(path.Child("type"), string(noBalancers)))
	case spec.Type == corev1.ServiceTypeNodePort && !r.NodePorts:
		errs = append(errs, field.Forbidden(path.Child("type"), "ports of the host's nodes are not for this Tenant; use type ClusterIP, "+
			"or ask the platform's administrators for workloads.nodePorts of the Tenant"))
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

// CheckServiceChange returns what a host must not get of a changed Service and had not before.
func (r Rules) CheckServiceChange(spec, before *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	was := r.CheckService(before, path)
	return slices.DeleteFunc(r.CheckService(spec, path), func(e *field.Error) bool {
		return slices.ContainsFunc(was, func(b *field.Error) bool { return b.Field == e.Field && b.Detail == e.Detail })
	})
}

// Service returns the Service of the host for one of a space, which Rules.CheckService has nothing against. It asks for
// the addresses and ports that the space's has, and lets the host choose those that it has not. The result shares
// nothing with its input.
func Service(service *corev1.Service, home names.Namespace) *corev1.Service {
	host := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: service.Name, Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: home.Installation},
			Annotations: home.MarksOf(service.Name, service.UID),
		},
		Spec: *service.Spec.DeepCopy(),
	}
	for _, key := range serviceLabels {
		if value, ok := service.Labels[key]; ok {
			host.Labels[key] = value
		}
	}
	host.Spec.ExternalName = ""
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		host.Annotations[names.ExternalNameAnnotation], host.Spec.ExternalName = service.Spec.ExternalName, names.NoHost
	}
	host.Annotations[names.HashAnnotation] = serviceHash(host)
	return host
}

// serviceHash returns the hash of what of a host's Service is not the host's to choose.
func serviceHash(host *corev1.Service) string {
	spec := host.Spec.DeepCopy()
	spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	hashed := map[string]any{"labels": host.Labels, "spec": spec}
	if name, ok := host.Annotations[names.ExternalNameAnnotation]; ok {
		hashed["externalName"] = name
	}
	written, err := json.Marshal(hashed)
	if err != nil {
		return err.Error() // maps and slices of strings and numbers have none
	}
	sum := sha256.Sum256(written)
	return hex.EncodeToString(sum[:8])
}

// Given is what a host has chosen of a Service.
type Given struct {
	ClusterIPs []string
	// NodePorts are by the order of the ports.
	NodePorts []int32
}

// GivenOf returns what has been chosen of a Service.
func GivenOf(service *corev1.Service) Given {
	g := Given{ClusterIPs: service.Spec.ClusterIPs}
	for i := range service.Spec.Ports {
		g.NodePorts = append(g.NodePorts, service.Spec.Ports[i].NodePort)
	}
	return g
}

// Equal reports whether two are the same.
func (g Given) Equal(other Given) bool {
	return slices.Equal(g.ClusterIPs, other.ClusterIPs) && slices.Equal(g.NodePorts, other.NodePorts)
}
