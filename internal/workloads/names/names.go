package names

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Prefix is that of all labels and annotations of ours on a host. Nothing in a space has them.
const Prefix = "workloads.tenantry.io/"

// Platform is the namespace of the host in which what Tenantry itself needs there is: its ServiceAccounts, the Lease of
// the syncer, and DNS.
const Platform = "tenantry-workloads"

// Domain is that of the names of Services and pods in all spaces.
const Domain = "cluster.local"

// Labels of objects on a host.
const (
	// InstallationLabel is on everything there, with the UID of the namespace kube-system of the
	// system space: it is stored in etcd, and no other installation has it.
	InstallationLabel = Prefix + "installation"
	// TenantUIDLabel is on namespaces.
	TenantUIDLabel = Prefix + "tenant-uid"
	// LoadBalancersLabel is on namespaces of tenants that may have load balancers, or that still have one from before.
	// By the policy of config/workloads, there are none elsewhere.
	LoadBalancersLabel = Prefix + "load-balancers"
)

// Annotations of objects on a host: of what they are made.
const (
	TenantAnnotation       = Prefix + "tenant"
	TenantUIDAnnotation    = Prefix + "tenant-uid"
	NamespaceAnnotation    = Prefix + "namespace"
	NamespaceUIDAnnotation = Prefix + "namespace-uid"
	NameAnnotation         = Prefix + "name"
	UIDAnnotation          = Prefix + "uid"
)

const (
	// HashAnnotation has the hash of what was last written of a host's object.
	HashAnnotation = Prefix + "hash"
	// ChangeAnnotation is on a host's Service while a server changes it, before it has changed the space's: with the
	// time, which differs from change to change.
	ChangeAnnotation = Prefix + "change"
	// BalancerAnnotation is on a host's Service that has no load balancer any more, for as long as something of that
	// may be on it.
	BalancerAnnotation = Prefix + "balancer-ends"
)

// KeysAnnotation has the keys of what was last written of a host's object, so that what the host's own components add
// stays: of an Ingress, those of the annotations that it has of the space's.
const KeysAnnotation = Prefix + "keys"

// NoHost is the name that the host's Services of type ExternalName have, and that nobody's has (RFC 2606): what serves
// Ingresses, and others, would lead to whatever a tenant names there, with the rights on the network that they have.
// ExternalNameAnnotation has the name, which DNS for spaces answers.
const (
	NoHost                 = "tenantry.invalid"
	ExternalNameAnnotation = Prefix + "external-name"
)

// HostUIDAnnotation is on pods of spaces that run on a host, on Services whose addresses a host has given, and on
// claims and volumes that a host has bound, with the UID of the host's object (of a volume: of the host's claim). It
// comes with the binding or the address, and a space's users do not change it.
const HostUIDAnnotation = Prefix + "host-uid"

// HostNamespaceUIDAnnotation is on pods of spaces that run on a host, with the UID of the host's namespace, and comes
// with the binding. It tells pods that this host has lost from pods that ran on another one.
const HostNamespaceUIDAnnotation = Prefix + "host-namespace-uid"

// APIAnnotation is on the host's namespaces of spaces, with the IP address and port at which pods reach the API of
// their space: DNS knows it by that.
const APIAnnotation = Prefix + "api"

// ClaimFinalizer is on a claim of a space for as long as the host may have one for it: its quota counts it, and its
// name is taken, until what it has stored is gone. A space's users do not remove it.
const ClaimFinalizer = Prefix + "claim"

// VolumeDriver is the driver that volumes in spaces name: what really stores them is the host's alone to know.
const VolumeDriver = "workloads.tenantry.io"

// WantedAnnotation is on namespaces of spaces, with the time, in RFC 3339, at which a server wanted the host's
// namespace, for a Service that it cannot make before.
const WantedAnnotation = Prefix + "wanted"

// SaltAnnotation is on namespaces of spaces, and on what is made of them on the host, if somebody else had the name
// there that theirs would have: with what makes it another one, which nobody knows before.
const SaltAnnotation = Prefix + "salt"

// maxSalt is how long a salt may be, in bytes. The syncer's have half of it.
const maxSalt = 52

// SaltOf returns the salt in annotations, or none if it is longer than the syncer makes them: a tenant may have written
// it before its pods ran on a host, and it is on all that is made there.
func SaltOf(annotations map[string]string) string {
	if salt := annotations[SaltAnnotation]; len(salt) <= maxSalt {
		return salt
	}
	return ""
}

const (
	hostPrefix  = "tn-"
	tokenPrefix = "tnt-" // no copy is called so
	tokenLen    = 26
	tenantLen   = 20
	spaceLen    = 26
	digestLen   = 10
	copyPrefix  = "tn-"
	debugPrefix = "tn-"
	longPrefix  = "tnx-"
	// certificatePrefix and longCertificatePrefix are those of copies for Ingresses.
	certificatePrefix     = "tnc-"
	longCertificatePrefix = "tncx-"
	longNameLen           = 180
)

// Namespace is a namespace of a tenant's space, in one of its lives.
type Namespace struct {
	// Installation is the value of InstallationLabel.
	Installation string
	Tenant       tenant.Name
	TenantUID    types.UID
	// Name is the name in the space.
	Name string
	UID  types.UID
	// Salt is the value of SaltAnnotation of the namespace in the space. It is empty but where somebody else had the
	// name on the host.
	Salt string
}

// Host returns the name of the namespace on the host, which is at most 61 characters long. The
// names in it are for people: they may be cut. The digest at its end is of the installation, of
// both UIDs, and of the salt.
func (n Namespace) Host() string {
	of := []string{n.Installation, string(n.TenantUID), string(n.UID)}
	if n.Salt != "" {
		of = append(of, n.Salt)
	}
	return hostPrefix + cut(string(n.Tenant), tenantLen) + "-" + cut(n.Name, spaceLen) + "-" + Digest(of...)[:digestLen]
}

// Canaries returns the name of the host's namespace in which an installation tests the network. No namespace of a space
// is called so: the names of those have another digest at their end.
func Canaries(installation string) string {
	return hostPrefix + "canaries-" + Digest(installation, "canaries")[:digestLen]
}

// Flat returns the name in the flattened view.
func (n Namespace) Flat() tenant.Flat { return tenant.Flatten(n.Tenant, n.Name) }

// Marks returns the annotations of the host's namespace.
func (n Namespace) Marks() map[string]string {
	marks := map[string]string{
		TenantAnnotation: string(n.Tenant), TenantUIDAnnotation: string(n.TenantUID),
		NamespaceAnnotation: n.Name, NamespaceUIDAnnotation: string(n.UID),
	}
	if n.Salt != "" {
		marks[SaltAnnotation] = n.Salt
	}
	return marks
}

// Labels returns the labels of the host's namespace by which it is found.
func (n Namespace) Labels() map[string]string {
	return map[string]string{InstallationLabel: n.Installation, TenantUIDLabel: string(n.TenantUID)}
}

// MarksOf returns the annotations of the host's object for one of a namespace.
func (n Namespace) MarksOf(name string, uid types.UID) map[string]string {
	marks := n.Marks()
	marks[NameAnnotation], marks[UIDAnnotation] = name, string(uid)
	return marks
}

// Meta returns the metadata of the host's object of a name for one of a namespace. Labels and annotations of a space
// tell nothing to what runs on the host.
func (n Namespace) Meta(onHost string, of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: onHost, Namespace: n.Host(), Labels: map[string]string{InstallationLabel: n.Installation}, Annotations: n.MarksOf(of.GetName(), of.GetUID()),
	}
}

// Of reads the namespace from the labels and annotations of a host's object, and reports whether
// they are complete.
func Of(labels, annotations map[string]string) (n Namespace, complete bool) {
	n = Namespace{
		Installation: labels[InstallationLabel],
		Tenant:       tenant.Name(annotations[TenantAnnotation]), TenantUID: types.UID(annotations[TenantUIDAnnotation]),
		Name: annotations[NamespaceAnnotation], UID: types.UID(annotations[NamespaceUIDAnnotation]), Salt: SaltOf(annotations),
	}
	return n, n.Installation != "" && n.Tenant.IsSpace() && n.TenantUID != "" && n.Name != "" && n.UID != ""
}

// Has reports whether an object of the host has the marks of one of a name in this namespace, in whichever of its
// lives.
func (n Namespace) Has(host metav1.Object, name string) bool {
	of, complete := Of(host.GetLabels(), host.GetAnnotations())
	return complete && of == n && host.GetAnnotations()[NameAnnotation] == name
}

// Copy returns the name on the host of a copy of a ConfigMap or Secret: hosts put a ConfigMap of
// their own, kube-root-ca.crt, into every namespace.
func Copy(name string) string { return prefixed(copyPrefix, longPrefix, name) }

// Certificate returns the name on the host of the copy of a Secret with a certificate that Ingresses name. Pods do not
// have it: theirs are called as Copy says.
func Certificate(name string) string { return prefixed(certificatePrefix, longCertificatePrefix, name) }

// prefixed returns a name with a prefix. One that would be too long is cut, and has another prefix.
func prefixed(prefix, long, name string) string {
	if len(prefix)+len(name) <= validation.DNS1123SubdomainMaxLength {
		return prefix + name
	}
	return long + strings.TrimRight(name[:longNameLen], "-.") + "-" + Digest(name)
}

// Debugger returns the name on the host of an ephemeral container. Whoever administers the host adds some of its own to
// pods of spaces, whose names their statuses tell: no tenant's is called as one of those.
func Debugger(name string) string { return debugPrefix + name }

// MaxDebugger is how long the name of an ephemeral container may be.
const MaxDebugger = validation.DNS1123LabelMaxLength - len(debugPrefix)

// Volume returns the name, in a space, of the volume that is bound to a claim with a UID there.
func Volume(claim types.UID) string { return "pvc-" + string(claim) }

// Tokens returns the name on the host of the Secret with the tokens of a pod. No other one has it, and no copy.
func Tokens(pod types.UID) string { return tokenPrefix + Digest(string(pod))[:tokenLen] }

// cut returns the beginning of a name.
func cut(name string, most int) string {
	return strings.TrimRight(name[:min(len(name), most)], "-")
}

// Digest returns 52 characters, of some texts, that may be in names.
func Digest(of ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// Hash returns the hash of something that JSON can say, such as a spec. It is long enough that nobody finds two that
// have the same: what a tenant's quota counts and what the host has are compared by it.
func Hash(spec any) string {
	written, err := json.Marshal(spec)
	if err != nil {
		return err.Error() // text, numbers, quantities, lists and maps have none
	}
	sum := sha256.Sum256(written)
	return hex.EncodeToString(sum[:16])
}
