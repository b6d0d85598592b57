package translate

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// priorityClass is the PriorityClass of the host that all pods of spaces have. It preempts nobody.
const priorityClass = "tenantry-workloads"

// MaxGraceSeconds is how long a pod of the host may take to end at most. Whoever drains a node of the host, or removes
// a Tenant, waits for no longer than that.
const MaxGraceSeconds = 3600

const (
	// netRaw is what a container can send packets in others' names with.
	netRaw corev1.Capability = "NET_RAW"
	// allOfThem are all capabilities.
	allOfThem corev1.Capability = "ALL"
)

// allowedAnnotations are those that a host's pod has of the space's. Others lead out of it, or tell
// the host's components what to do.
var allowedAnnotations = []string{"kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container"}

// Options are what all pods of a host have in common.
type Options struct {
	// TrustLocalImages leaves the pull policy of images as it is. Otherwise it is Always: who names an
	// image must be able to pull it, although another tenant's pod has put it on the node.
	TrustLocalImages bool
	// DNS are the addresses of the server that answers the names of spaces. If there are none, pods have the name servers
	// of their nodes.
	DNS []string
	// API is where pods reach the API of their space. If it is the zero value, they do not.
	API netip.AddrPort
}

// Home is where a pod is to be on the host.
type Home struct {
	names.Namespace
	// HostUID is the UID of the host's namespace.
	HostUID types.UID
}

// Pod returns the pod of the host for one of a space, which Rules.Check has nothing against. It has the ephemeral
// containers as well, which no pod is created with. The result shares nothing that is changed with its input.
func (o Options) Pod(pod *corev1.Pod, home Home) *corev1.Pod {
	spec := pod.Spec.DeepCopy()
	host := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: home.Host(), Labels: labels(pod.Labels, home)}}
	if metav1.GetControllerOf(pod) != nil {
		// Draining a node leaves pods without a controller there, because nobody makes them again.
		host.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Namespace", Name: home.Host(), UID: home.HostUID, Controller: new(true),
		}}
	}
	host.Annotations = redirect(pod, spec)
	for _, key := range allowedAnnotations {
		if value, ok := pod.Annotations[key]; ok {
			host.Annotations[key] = value
		}
	}
	maps.Copy(host.Annotations, home.MarksOf(pod.Name, pod.UID))
	nameClaims(pod, spec)
	o.changeSpec(spec, home)
	fromSecret(spec, pod.UID) // last, because its name is no copy's
	host.Spec = *spec
	return host
}

// labels returns those of the host's pod.
func labels(of map[string]string, home Home) map[string]string {
	on := map[string]string{}
	for key, value := range of {
		if !strings.HasPrefix(key, names.Prefix) {
			on[key] = value
		}
	}
	on[names.InstallationLabel] = home.Installation
	return on
}

// changeSpec makes a spec of a space the host's, but for what redirect does.
func (o Options) changeSpec(spec *corev1.PodSpec, home Home) {
	spec.NodeName = ""
	spec.ServiceAccountName, spec.DeprecatedServiceAccount = "", ""
	spec.AutomountServiceAccountToken = new(false)
	spec.EnableServiceLinks = new(false)
	spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy = priorityClass, nil, nil
	if grace := spec.TerminationGracePeriodSeconds; grace != nil {
		spec.TerminationGracePeriodSeconds = new(min(*grace, MaxGraceSeconds))
	}
	confine(spec)
	spec.SchedulingGates = nil // the host's pod is made when there is none left
	o.changeDNS(spec, home.Name)
	dropMatchedKeys(spec)
	eachSource(spec, rename, rename)
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			o.pull(&image.PullPolicy)
		}
	}
	eachContainer(spec, nil, func(c *corev1.Container, _ *field.Path) {
		o.pull(&c.ImagePullPolicy)
		dropNetRaw(c)
	})
	eachEphemeral(spec, nil, func(c *corev1.Container, _ *field.Path) { c.Name = names.Debugger(c.Name) })
}

// confine has a pod that says nothing about system calls use those of the runtime's default: kubelets allow all by
// default, and tenants share the kernels of nodes.
func confine(spec *corev1.PodSpec) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.SecurityContext.SeccompProfile == nil {
		spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
}

// dropMatchedKeys takes away keys of labels that the space's server has made part of the selectors
// beside them.
func dropMatchedKeys(spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		spec.TopologySpreadConstraints[i].MatchLabelKeys = nil
	}
	for _, term := range podTerms(spec.Affinity) {
		term.MatchLabelKeys, term.MismatchLabelKeys = nil, nil
	}
}

// dropNetRaw takes from a container what lets it answer for others, unless the Pod Security level has
// let it ask for that.
func dropNetRaw(c *corev1.Container) {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	if c.SecurityContext.Capabilities == nil {
		c.SecurityContext.Capabilities = &corev1.Capabilities{}
	}
	asked := func(wanted corev1.Capability) bool {
		plain := strings.TrimPrefix(strings.ToUpper(string(wanted)), "CAP_")
		return plain == string(netRaw) || plain == string(allOfThem)
	}
	// Container runtimes know no other spelling of what is dropped, and drop nothing for one.
	dropped := func(is corev1.Capability) bool { return is == netRaw || is == allOfThem }
	capabilities := c.SecurityContext.Capabilities
	if !slices.ContainsFunc(capabilities.Add, asked) && !slices.ContainsFunc(capabilities.Drop, dropped) {
		capabilities.Drop = append(capabilities.Drop, netRaw)
	}
}

func (o Options) pull(policy *corev1.PullPolicy) {
	if !o.TrustLocalImages {
		*policy = corev1.PullAlways
	}
}

// rename puts the name of a copy in the place of a ConfigMap's or Secret's.
func rename(name *string) { *name = names.Copy(*name) }
