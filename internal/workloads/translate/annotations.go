package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// obeyed are annotations by which components of the host know what to do with a kind of objects.
type obeyed struct {
	// keys are theirs.
	keys *regexp.Regexp
	// what says what the components do, and granted where a Tenant is granted some, empty if nowhere.
	what, granted string
}

var (
	forIngresses = obeyed{regexp.MustCompile(`^[^/]*ingress[^/]*(/|$)`), "serves Ingresses of all tenants", "ingressAnnotations"}
	forRoutes    = obeyed{regexp.MustCompile(`^[^/]*(ingress|gateway|konghq)[^/]*/`), "serves Gateways of all tenants", ""}
	// Keys of load balancers have no domain in common. Those of service.beta.kubernetes.io are all for them.
	forBalancers = obeyed{regexp.MustCompile(`(?i)balancer|\blb|lb\b|^service\.beta\.kubernetes\.io/`), "makes load balancers of all tenants", "loadBalancerAnnotations"}
)

// checkAnnotations refuses annotations that tell components of the host what to do, and that the host must not have:
// without them, an object would do something else than it says. Others are not on the host.
func checkAnnotations(meta *metav1.ObjectMeta, granted []string, of obeyed) (errs field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(meta.Annotations)) {
		if key != classAnnotation && of.keys.MatchString(key) && !slices.Contains(granted, key) {
			wayOut := "remove it"
			if of.granted != "" {
				wayOut += ", or ask the platform's administrators for it in workloads." + of.granted + " of the Tenant"
			}
			errs = append(errs, field.Forbidden(annotationPath(key), "annotations tell what "+of.what+" what to do; "+wayOut))
		}
	}
	return errs
}

func annotationPath(key string) *field.Path { return field.NewPath("metadata", "annotations").Key(key) }

// copyAnnotations gives an object of the host the annotations of the space's that are granted, and notes which they
// are.
func copyAnnotations(host, from map[string]string, granted []string) {
	var copied []string
	for _, key := range slices.Sorted(slices.Values(granted)) {
		if value, ok := from[key]; ok && key != classAnnotation && !strings.HasPrefix(key, names.Prefix) {
			host[key] = value
			copied = append(copied, key)
		}
	}
	if len(copied) > 0 {
		host[names.KeysAnnotation] = strings.Join(copied, ",")
	}
}

// KeepOthers keeps the finalizers, annotations and labels that components of the host have put on an object of the
// host, which is to be as wanted.
func KeepOthers(wanted, there metav1.Object) {
	wanted.SetFinalizers(there.GetFinalizers())
	keep(wanted.GetAnnotations(), there.GetAnnotations(), copiedTo(there))
	keep(wanted.GetLabels(), there.GetLabels(), serviceLabels)
}

// dropOthers takes from an object that is to be on the host what KeepOthers keeps of the one that is there, but for
// finalizers, and reports whether there was something.
func dropOthers(wanted metav1.Object) bool {
	n := len(wanted.GetAnnotations()) + len(wanted.GetLabels())
	ours := copiedTo(wanted)
	maps.DeleteFunc(wanted.GetAnnotations(), func(key, _ string) bool { return isOthers(key, ours) })
	maps.DeleteFunc(wanted.GetLabels(), func(key, _ string) bool { return isOthers(key, serviceLabels) })
	return len(wanted.GetAnnotations())+len(wanted.GetLabels()) < n
}

// copiedTo returns the keys of annotations that copyAnnotations has given an object of the host.
func copiedTo(host metav1.Object) []string {
	return strings.Split(host.GetAnnotations()[names.KeysAnnotation], ",")
}

func isOthers(key string, ours []string) bool {
	return !strings.HasPrefix(key, names.Prefix) && !slices.Contains(ours, key)
}

func keep(wanted, there map[string]string, ours []string) {
	for key, value := range there {
		if _, ok := wanted[key]; !ok && isOthers(key, ours) {
			wanted[key] = value
		}
	}
}
