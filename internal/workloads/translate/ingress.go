package translate

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// maxHosts, maxPaths and maxCertificates are how many rules, or hosts of certificates, all paths and all
	// certificates an Ingress has on a host at most: its controller, which all tenants share, keeps them all in its
	// configuration.
	maxHosts        = 64
	maxPaths        = 256
	maxCertificates = 32
	// maxPath is how long a path may be, in bytes.
	maxPath = 1024
	// classAnnotation chose the controller before there were classes, and still does.
	classAnnotation = "kubernetes.io/ingress.class"
)

// pathCharacters are those of paths beside letters and digits. Controllers write paths into configuration and
// expressions of their own, where others, such as quotes, braces, semicolons and line breaks, have been ways out
// (CVE-2021-25745, CVE-2022-4886). Some take paths for regular expressions: nothing in them repeats.
const pathCharacters = "/._~%!&,:=@-"

// inPaths are all bytes that paths may have: many paths are long.
var inPaths = func() (in [256]bool) {
	for b := range in {
		in[b] = '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z' || strings.ContainsRune(pathCharacters, rune(b))
	}
	return in
}()

// isPath reports whether a text is a path that a host may have.
func isPath(text string) bool {
	for i := range len(text) {
		if !inPaths[text[i]] {
			return false
		}
	}
	return len(text) <= maxPath && strings.HasPrefix(text, "/")
}

// HasIngresses reports whether Ingresses of the tenant are on the host.
func (r Rules) HasIngresses() bool { return len(r.HostNames) > 0 }

// CheckIngress returns what of an Ingress a host must not get. Of a tenant without host names it gets none, and nothing
// is wrong with one. meta has its annotations, path is that of its spec.
func (r Rules) CheckIngress(meta *metav1.ObjectMeta, spec *networkingv1.IngressSpec, path *field.Path) field.ErrorList {
	if !r.HasIngresses() {
		return nil
	}
	if errs := checkIngressSize(spec, path); len(errs) > 0 {
		return errs // what follows looks at everything
	}
	errs := append(checkFields(reflect.ValueOf(spec).Elem(), path), checkAnnotations(meta, r.IngressAnnotations, forIngresses)...)
	if _, ok := meta.Annotations[classAnnotation]; ok {
		errs = append(errs, field.Forbidden(annotationPath(classAnnotation), "the class of an Ingress is in spec.ingressClassName; remove it"))
	}
	if class := r.classOf(spec); !slices.Contains(r.IngressClasses, class) {
		errs = append(errs, field.Forbidden(path.Child("ingressClassName"), fmt.Sprintf("Ingresses of this Tenant may have %s; name one of these, "+
			"or ask the platform's administrators for another one in workloads.ingressClasses of the Tenant", oneOf(r.IngressClasses))))
	}
	for i := range spec.Rules {
		errs = append(errs, r.checkHost(spec.Rules[i].Host, path.Child("rules").Index(i).Child("host"))...)
		if http := spec.Rules[i].HTTP; http != nil {
			errs = append(errs, checkPaths(http.Paths, path.Child("rules").Index(i).Child("http", "paths"))...)
		}
	}
	for i := range spec.TLS {
		errs = append(errs, r.checkTLS(&spec.TLS[i], path.Child("tls").Index(i))...)
	}
	return errs
}

func oneOf(all []string) string {
	return cmp.Or(strings.Join(all, ", "), "none")
}

// checkIngressSize refuses an Ingress that costs its controller much.
func checkIngressSize(spec *networkingv1.IngressSpec, path *field.Path) field.ErrorList {
	paths, hosts := 0, len(spec.Rules)
	for i := range spec.Rules {
		if http := spec.Rules[i].HTTP; http != nil {
			paths += len(http.Paths)
		}
	}
	for i := range spec.TLS {
		hosts += len(spec.TLS[i].Hosts)
	}
	if paths > maxPaths || hosts > 2*maxHosts || len(spec.Rules) > maxHosts || len(spec.TLS) > maxCertificates {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("on a host cluster, an Ingress has at most %d rules, and as many hosts of certificates, %d paths and %d certificates; divide it",
			maxHosts, maxPaths, maxCertificates))}
	}
	return nil
}

// checkHost refuses hosts that are not the tenant's.
func (r Rules) checkHost(host string, path *field.Path) field.ErrorList {
	switch {
	case host == "":
		return field.ErrorList{field.Forbidden(path, "without a host, an Ingress would have what is sent for every host name; name one of "+oneOf(r.HostNames))}
	case !v1alpha1.HasHostName(r.HostNames, host):
		return field.ErrorList{r.notTheirs("Ingresses", host, path)}
	default:
		return nil
	}
}

// notTheirs says that a host name is not the tenant's.
func (r Rules) notTheirs(what, name string, path *field.Path) *field.Error {
	return field.Forbidden(path, fmt.Sprintf("%s of this Tenant may name %s; name one of these, or ask the platform's administrators for %q in workloads.hostNames of the Tenant",
		what, oneOf(r.HostNames), name))
}

func checkPaths(all []networkingv1.HTTPIngressPath, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range all {
		if text := all[i].Path; text != "" {
			errs = append(errs, checkPath(text, path.Index(i).Child("path"))...)
		}
	}
	return errs
}

func checkPath(text string, path *field.Path) field.ErrorList {
	if isPath(text) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("on a host cluster, a path begins with /, and has at most %d letters, digits and characters of %s; use others, or escape them as in URLs",
		maxPath, pathCharacters))}
}

func (r Rules) checkTLS(tls *networkingv1.IngressTLS, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(tls.Hosts) == 0 {
		errs = append(errs, r.checkHost("", path.Child("hosts"))...)
	}
	for i, host := range tls.Hosts {
		errs = append(errs, r.checkHost(host, path.Child("hosts").Index(i))...)
	}
	if tls.SecretName != "" && len(validation.IsDNS1123Subdomain(tls.SecretName)) > 0 {
		errs = append(errs, field.Forbidden(path.Child("secretName"), "it is the name of no Secret; name one that there can be"))
	}
	return errs
}

// classOf returns the class of an Ingress on the host, empty if it has none.
func (r Rules) classOf(spec *networkingv1.IngressSpec) string {
	switch {
	case spec.IngressClassName != nil:
		return *spec.IngressClassName
	case len(r.IngressClasses) == 1:
		return r.IngressClasses[0]
	default:
		return ""
	}
}

// Ingress returns the Ingress of the host for one of a space, which CheckIngress has nothing against. The result shares
// nothing with its input.
func (r Rules) Ingress(ingress *networkingv1.Ingress, home names.Namespace) *networkingv1.Ingress {
	host := &networkingv1.Ingress{
		ObjectMeta: home.Meta(ingress.Name, ingress),
		Spec:       *ingress.Spec.DeepCopy(),
	}
	host.Spec.IngressClassName = new(r.classOf(&ingress.Spec))
	for i := range host.Spec.TLS {
		if tls := &host.Spec.TLS[i]; tls.SecretName != "" {
			tls.SecretName = names.Certificate(tls.SecretName)
		}
	}
	copyAnnotations(host.Annotations, ingress.Annotations, r.IngressAnnotations)
	return host
}

// CertificatesOf returns the names of the Secrets with the certificates of an Ingress.
func CertificatesOf(spec *networkingv1.IngressSpec) []string {
	all := map[string]bool{}
	for i := range spec.TLS {
		if name := spec.TLS[i].SecretName; name != "" {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
