package translate

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// rootCA is the ConfigMap with the authority of the API, which upstream's admission has every pod read.
const rootCA = "kube-root-ca.crt"

// maxReferences is how many ConfigMaps and Secrets a pod names at most, and how many claims: each of them may be read
// before it runs.
const maxReferences = 100

// maxLabels is how many labels a pod has at most: chosen, usual ones have less than twenty.
const maxLabels = 64

// maxAnnotations is how many bytes of annotations a pod has at most: those that the API allows, without 4 KiB for what
// the platform notes of its host.
const maxAnnotations = apivalidation.TotalAnnotationSizeLimitB - 4<<10

// maxEphemeral is how many ephemeral containers a pod has at most: they stay in it when they have ended.
const maxEphemeral = 32

// Rules are what the pods, Services, Ingresses and HTTPRoutes of a tenant are held to.
type Rules struct {
	// Level is the Pod Security level. The zero value is Baseline.
	Level Level
	// NodePorts is whether Services may have ports of the host's nodes.
	NodePorts bool
	// LoadBalancers is whether Services may have load balancers of the host.
	LoadBalancers bool
	// Quota is the Tenant's own. Of the host's devices, pods may have the extended resources that it names.
	Quota corev1.ResourceList
	// HostNames, IngressClasses and IngressAnnotations are what Ingresses may have, as the Tenant says. HTTPRoutes may
	// have the former.
	HostNames, IngressClasses, IngressAnnotations []string
	// Gateways are those of the host, as NAMESPACE/NAME, that HTTPRoutes may name.
	Gateways []string
	// LoadBalancerAnnotations are those that Services with load balancers may have on the host.
	LoadBalancerAnnotations []string
}

// RulesOf returns those of a Tenant. own is nil if it says nothing of them.
func RulesOf(own *v1alpha1.Workloads, quota corev1.ResourceList) Rules {
	rules := Rules{Quota: quota}
	if own != nil {
		rules.Level, rules.NodePorts = Level(own.PodSecurity), own.NodePorts == v1alpha1.NodePortsAllowed
		rules.LoadBalancers, rules.LoadBalancerAnnotations = own.LoadBalancers == v1alpha1.LoadBalancersAllowed, own.LoadBalancerAnnotations
		rules.HostNames, rules.IngressClasses, rules.IngressAnnotations = own.HostNames, own.IngressClasses, own.IngressAnnotations
		rules.Gateways = own.Gateways
	}
	return rules
}

// Check returns what of a pod, or of a template of pods, a host must not get. meta has its labels and
// annotations, path is that of its spec.
func (r Rules) Check(meta *metav1.ObjectMeta, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if errs := checkScheduling(spec, path); len(errs) > 0 {
		return errs // what follows looks at every term
	}
	errs := slices.Concat(CheckLabels(meta), checkAnnotationsSize(meta), checkCosts(spec, path))
	errs = append(errs, r.checkResources(spec, path)...)
	errs = append(errs, checkFields(reflect.ValueOf(spec).Elem(), path)...)
	errs = append(errs, checkEphemeral(spec, path)...)
	errs = append(errs, checkTokens(spec, path)...)
	errs = append(errs, checkFieldRefs(spec, path)...)
	errs = append(errs, checkReferences(spec, path)...)
	errs = append(errs, checkVolumes(spec.Volumes, path.Child("volumes"))...)
	errs = append(errs, checkGates(spec.ReadinessGates, path.Child("readinessGates"))...)
	if spec.SchedulerName != corev1.DefaultSchedulerName && spec.SchedulerName != "" {
		errs = append(errs, field.Forbidden(path.Child("schedulerName"), "pods of a space may name "+corev1.DefaultSchedulerName+"; remove it"))
	}
	if spec.OS != nil && spec.OS.Name != corev1.Linux { // Windows has neither capabilities to drop nor profiles of system calls
		errs = append(errs, field.Forbidden(path.Child("os", "name"), "pods of a space run on nodes with Linux, which keeps those of tenants apart; remove it"))
	}
	return append(errs, r.Level.check(meta, spec, path)...)
}

// CheckLabels refuses labels by which the host's objects are known, and more than there is room for: each key is three
// times in the host's pod.
func CheckLabels(meta *metav1.ObjectMeta) field.ErrorList {
	var errs field.ErrorList
	if len(meta.Labels) > maxLabels {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels"), fmt.Sprintf("a pod that runs on a host cluster has at most %d labels; remove some", maxLabels)))
	}
	for _, key := range slices.Sorted(maps.Keys(meta.Labels)) {
		if strings.HasPrefix(key, names.Prefix) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "labels").Key(key), "labels below "+names.Prefix+" are the platform's; remove it"))
		}
	}
	return errs
}

// checkAnnotationsSize leaves room for those of the platform: with more than 256 KiB of all, nobody could write the
// pod.
func checkAnnotationsSize(meta *metav1.ObjectMeta) field.ErrorList {
	size := 0
	for key, value := range meta.Annotations {
		if !strings.HasPrefix(key, names.Prefix) {
			size += len(key) + len(value)
		}
	}
	if size <= maxAnnotations {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations"),
		fmt.Sprintf("a pod that runs on a host cluster has at most %d bytes of annotations; remove some, or use a ConfigMap", maxAnnotations))}
}

// checkFields refuses what the table refuses or does not know, wherever it is set.
func checkFields(v reflect.Value, path *field.Path) field.ErrorList {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return checkFields(v.Elem(), path)
	case reflect.Slice:
		var errs field.ErrorList
		for i := range v.Len() {
			errs = append(errs, checkFields(v.Index(i), path.Index(i))...)
		}
		return errs
	case reflect.Struct:
		if values[v.Type()] {
			return nil
		}
		return checkStruct(v, path)
	default: // maps have values without fields
		return nil
	}
}

func checkStruct(v reflect.Value, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	table := fields[v.Type()]
	for i := range v.NumField() {
		of, value := v.Type().Field(i), v.Field(i)
		if !isSet(value) {
			continue
		}
		at := path
		if name, _, _ := strings.Cut(of.Tag.Get("json"), ","); name != "" {
			at = path.Child(name)
		}
		switch treated, known := table[of.Name]; {
		case !known:
			errs = append(errs, field.Forbidden(at, "this version of Tenantry does not know what a host makes of it; remove it"))
		case treated != same && treated != changed:
			errs = append(errs, field.Forbidden(at, string(treated)))
		default:
			errs = append(errs, checkFields(value, at)...)
		}
	}
	return errs
}

// isSet reports whether a field says anything. A pointer to false or zero says what nothing does.
func isSet(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() != reflect.Struct {
		return !v.Elem().IsZero()
	}
	if v.Kind() == reflect.Slice || v.Kind() == reflect.Map {
		return v.Len() > 0
	}
	return !v.IsZero()
}

// checkReferences refuses references to what can be no ConfigMap or Secret: their names become parts of others.
func checkReferences(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	read := ReferencesOf(spec)
	delete(read.ConfigMaps, rootCA) // of which templates do not know yet
	if named := len(read.ConfigMaps) + len(read.Secrets); named > maxReferences {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("it names %d ConfigMaps and Secrets, and a pod that runs on a host cluster names at most %d; put what it reads into fewer of them",
			named, maxReferences))}
	}
	for _, all := range []map[string]bool{read.ConfigMaps, read.Secrets} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if len(validation.IsDNS1123Subdomain(name)) > 0 {
				errs = append(errs, field.Forbidden(path, fmt.Sprintf("%q is the name of no ConfigMap or Secret; name one that there can be", name)))
			}
		}
	}
	return errs
}

// checkEphemeral refuses ephemeral containers beyond what a pod of the host has room for.
func checkEphemeral(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(spec.EphemeralContainers); n > maxEphemeral {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), fmt.Sprintf("it has %d ephemeral containers, and a pod that runs on a host cluster has at most %d, which stay when they have ended; "+
			"use kubectl exec, or make the pod again", n, maxEphemeral)))
	}
	eachEphemeral(spec, path, func(c *corev1.Container, at *field.Path) {
		if len(c.Name) > names.MaxDebugger {
			errs = append(errs, field.Forbidden(at.Child("name"), fmt.Sprintf("it is longer than %d characters; use a shorter one", names.MaxDebugger)))
		}
	})
	return errs
}

// checkFieldRefs refuses fields of the pod that the downward API has not on a host.
func checkFieldRefs(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	eachFieldRef(spec, path, func(ref *corev1.ObjectFieldSelector, at *field.Path) {
		if _, ok := hostFieldPath(ref.FieldPath); !ok {
			errs = append(errs, field.Forbidden(at.Child("fieldPath"), "this version of Tenantry does not know what a host has there; remove it"))
		}
	})
	return errs
}
