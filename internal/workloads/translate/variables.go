package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/kubelet/envvars"
)

const (
	// apiService is the Service by which pods find the API. It is the platform's in every namespace.
	apiService = "kubernetes"
	// maxVariables is how many bytes the variables of Services take at most in all containers of a pod, which is one
	// object of the host.
	maxVariables = 32 << 10
	// variableSize is what a variable takes beside its name and its value.
	variableSize = 24
	// ephemeralVariables is how many of those bytes an ephemeral container has: all of a pod's together as many as its
	// others.
	ephemeralVariables = maxVariables / maxEphemeral
)

// ParseAPI reads the address at which pods reach the API of their spaces. An empty one is the zero value.
func ParseAPI(text string) (netip.AddrPort, error) {
	if text == "" {
		return netip.AddrPort{}, nil
	}
	api, err := netip.ParseAddrPort(text)
	if err != nil {
		return api, fmt.Errorf("%q is no IP address and port, such as 192.0.2.7:6443", text)
	}
	addr := api.Addr().Unmap()
	if addr.IsUnspecified() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.Zone() != "" || api.Port() == 0 {
		return api, fmt.Errorf("%q is not where pods reach something: name an address of the servers, or of what is before them, and its port", text)
	}
	return netip.AddrPortFrom(addr, api.Port()), nil
}

// SetVariables gives the containers of a host's pod the variables of the environment that a kubelet of the space would
// give them: where the API of the space is and, if the pod wants them, where the Services of its namespace are. What a
// container has set itself stays. As with a kubelet, later changes of Services do not change them. Of the Services
// there are as many, in the order of their names, as there is room for.
func (o Options) SetVariables(host, pod *corev1.Pod, services []*corev1.Service) {
	within := func(room int) func(*corev1.Container, *field.Path) {
		all := apiVariables(o.API)
		if pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks {
			all = append(all, links(services, room)...)
		}
		return func(c *corev1.Container, _ *field.Path) { setVariables(c, all) }
	}
	containers := len(host.Spec.InitContainers) + len(host.Spec.Containers)
	eachLasting(&host.Spec, nil, within(maxVariables/max(1, containers)))
	if len(host.Spec.EphemeralContainers) > 0 {
		eachEphemeral(&host.Spec, nil, within(ephemeralVariables))
	}
}

// setVariables gives a container the variables that it does not set itself.
func setVariables(c *corev1.Container, all []corev1.EnvVar) {
	own := map[string]bool{}
	for i := range c.Env {
		own[c.Env[i].Name] = true
	}
	// First, because what the container sets may refer to them.
	c.Env = append(slices.DeleteFunc(slices.Clone(all), func(v corev1.EnvVar) bool { return own[v.Name] }), c.Env...)
}

// apiVariables returns the variables of the Service of the API. They are all that a kubelet of the host sets by itself
// for the host's own API, and so take the place of those. Without an address they are empty, by which clients see that
// there is none.
func apiVariables(api netip.AddrPort) []corev1.EnvVar {
	host, port, url := "", "", ""
	if api.IsValid() {
		host, port, url = api.Addr().String(), strconv.Itoa(int(api.Port())), "tcp://"+api.String()
	}
	return []corev1.EnvVar{
		{Name: "KUBERNETES_SERVICE_HOST", Value: host}, {Name: "KUBERNETES_SERVICE_PORT", Value: port},
		{Name: "KUBERNETES_SERVICE_PORT_HTTPS", Value: port}, {Name: "KUBERNETES_PORT", Value: url},
		{Name: "KUBERNETES_PORT_443_TCP", Value: url}, {Name: "KUBERNETES_PORT_443_TCP_PROTO", Value: "tcp"},
		{Name: "KUBERNETES_PORT_443_TCP_PORT", Value: port}, {Name: "KUBERNETES_PORT_443_TCP_ADDR", Value: host},
	}
}

// links returns the variables of Services, within so many bytes.
func links(services []*corev1.Service, room int) []corev1.EnvVar {
	services = slices.SortedFunc(slices.Values(services), func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	var all []corev1.EnvVar
	for _, service := range services {
		if service.Name == apiService || len(service.Spec.Ports) == 0 {
			continue
		}
		of := envvars.FromServices([]*corev1.Service{service})
		for _, v := range of {
			room -= len(v.Name) + len(v.Value) + variableSize
		}
		if room < 0 {
			return all
		}
		all = append(all, of...)
	}
	return all
}
