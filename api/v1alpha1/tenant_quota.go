package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of a ResourceQuota that have a name of their own, and whether their values are
// whole numbers.
var namedLimits = map[corev1.ResourceName]bool{
	corev1.ResourceCPU: false, corev1.ResourceRequestsCPU: false, corev1.ResourceLimitsCPU: false,
	corev1.ResourceMemory: false, corev1.ResourceRequestsMemory: false, corev1.ResourceLimitsMemory: false,
	corev1.ResourceEphemeralStorage: false, corev1.ResourceRequestsEphemeralStorage: false, corev1.ResourceLimitsEphemeralStorage: false,
	corev1.ResourceRequestsStorage: false,

	corev1.ResourcePods: true, corev1.ResourceServices: true, corev1.ResourceServicesNodePorts: true,
	corev1.ResourceServicesLoadBalancers: true, corev1.ResourceReplicationControllers: true, corev1.ResourceQuotas: true,
	corev1.ResourceSecrets: true, corev1.ResourceConfigMaps: true, corev1.ResourcePersistentVolumeClaims: true,
	ResourceStoredBytes: true,
}

const (
	countPrefix        = "count/"
	storageClassSuffix = ".storageclass.storage.k8s.io/"
	allowedLimits      = "allowed are the names of a ResourceQuota (pods, services, requests.cpu, limits.memory, requests.storage ...), " +
		"count/RESOURCE.GROUP, requests.DOMAIN/RESOURCE, hugepages-SIZE, CLASS.storageclass.storage.k8s.io/requests.storage or /persistentvolumeclaims, " +
		"CLASS.deviceclass.resource.k8s.io/devices, and " + string(ResourceStoredBytes)
)

// ValidateQuota returns what is wrong with the limits of a tenant, by name. What old has
// as well is not looked at: a rule that came later must not keep a Tenant from being
// changed. known reports whether spaces may have objects of a resource in one of the
// built-in groups, and true for every other group; if it is nil, that is not asked.
func ValidateQuota(quota, old corev1.ResourceList, known func(schema.GroupResource) bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(quota)) {
		limit := quota[name]
		before, stays := old[name]
		if !stays {
			if reason := unknownLimit(name, known); reason != "" {
				errs = append(errs, field.Invalid(path.Key(string(name)), string(name), reason))
				continue
			}
		}
		if stays && before.Cmp(limit) == 0 {
			continue
		}
		if reason := wrongLimit(name, limit); reason != "" {
			errs = append(errs, field.Invalid(path.Key(string(name)), limit.String(), reason))
		}
	}
	return errs
}

// limits are those of a quota before they are decoded. What is null is nil.
// +k8s:openapi-gen=false
// +kubebuilder:object:generate=false
type limits map[string]*json.RawMessage

// CheckNullLimits refuses a Tenant, a KeystoneSync or a configuration, in JSON, in whose quota a limit
// has no value. A quantity that is null becomes 0 when it is decoded, which allows nothing, and in
// YAML it is what stands after a name and nothing else. What cannot be decoded is not looked at.
func CheckNullLimits(data []byte) error {
	var of struct {
		Spec struct {
			Quota          limits
			TenantTemplate struct{ Quota limits }
		}
		DefaultQuota limits
		Limits       struct{ Quota limits }
	}
	if json.Unmarshal(data, &of) != nil {
		return nil
	}
	for path, quota := range map[string]limits{
		"spec.quota": of.Spec.Quota, "spec.tenantTemplate.quota": of.Spec.TenantTemplate.Quota,
		"defaultQuota": of.DefaultQuota, "limits.quota": of.Limits.Quota,
	} {
		for _, name := range slices.Sorted(maps.Keys(quota)) {
			if quota[name] == nil {
				return fmt.Errorf("%s[%s]: it has no value; write 0 to allow nothing, or leave the name out for no limit", path, name)
			}
		}
	}
	return nil
}

// Limits are ResourceQuota's: whole numbers are checked there in thousandths, and what
// does not fit into 64 bits is not counted.
const (
	mostOfAny   = math.MaxInt64
	mostOfWhole = math.MaxInt64 / 1000
)

func wrongLimit(name corev1.ResourceName, limit resource.Quantity) string {
	switch {
	case limit.Sign() < 0:
		return "must not be negative; 0 allows nothing, and without the name there is no limit"
	case isWhole(name) && limit.CmpInt64(mostOfWhole) > 0:
		return fmt.Sprintf("must not be more than %d; without the name there is no limit", int64(mostOfWhole))
	case limit.CmpInt64(mostOfAny) > 0:
		return fmt.Sprintf("must not be more than %d; without the name there is no limit", int64(mostOfAny))
	case isWhole(name) && limit.MilliValue()%1000 != 0:
		return "must be a whole number"
	default:
		return ""
	}
}

// isWhole reports whether a limit is a whole number, as ResourceQuota demands of what
// cannot be divided and of all names with a domain or a class.
func isWhole(name corev1.ResourceName) bool {
	return namedLimits[name] || strings.Contains(string(name), "/")
}

// unknownLimit returns why nothing would be counted against a limit of this name, or
// why no ResourceQuota can have it, which the limits of a tenant become.
func unknownLimit(name corev1.ResourceName, known func(schema.GroupResource) bool) string {
	if reason := uncounted(name, known); reason != "" {
		return reason
	}
	return notA(string(name), "name of a limit in a ResourceQuota", validation.IsQualifiedName(string(name)))
}

// uncounted returns why nothing would be counted against a limit of this name.
func uncounted(name corev1.ResourceName, known func(schema.GroupResource) bool) string {
	if _, ok := namedLimits[name]; ok {
		return ""
	}
	text := string(name)
	if counted, ok := strings.CutPrefix(text, countPrefix); ok {
		return unknownCount(counted, known)
	}
	for _, prefix := range []string{corev1.ResourceHugePagesPrefix, corev1.ResourceRequestsHugePagesPrefix} {
		if size, ok := strings.CutPrefix(text, prefix); ok {
			if quantity, err := resource.ParseQuantity(size); err != nil || quantity.Sign() <= 0 {
				return fmt.Sprintf("%q is no size of huge pages, such as 2Mi", size)
			}
			return ""
		}
	}
	if extended, ok := strings.CutPrefix(text, corev1.DefaultResourceRequestsPrefix); ok {
		return unknownExtended(extended)
	}
	for _, suffix := range []string{storageClassSuffix + "requests.storage", storageClassSuffix + "persistentvolumeclaims", corev1.ResourceClaimsPerClass} {
		if class, ok := strings.CutSuffix(text, suffix); ok {
			return notA(class, "name of a class", validation.IsDNS1123Subdomain(class))
		}
	}
	return "nothing is counted by this name; " + allowedLimits
}

// unknownExtended returns why a resource is not one that pods request beside those of
// Kubernetes itself.
func unknownExtended(name string) string {
	if strings.HasPrefix(name, "deviceclass.resource.kubernetes.io/") {
		return ""
	}
	domain, _, qualified := strings.Cut(name, "/")
	if !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return fmt.Sprintf("%q is no extended resource, such as nvidia.com/gpu; ", name) + allowedLimits
	}
	return notA(name, "extended resource, such as nvidia.com/gpu", validation.IsQualifiedName(name))
}

// unknownCount returns why there are no objects of a resource, as "resource" or
// "resource.group".
func unknownCount(text string, known func(schema.GroupResource) bool) string {
	counted := schema.ParseGroupResource(text)
	if problems := validation.IsDNS1123Label(counted.Resource); len(problems) > 0 {
		return notA(counted.Resource, "resource, such as count/deployments.apps", problems)
	}
	if counted.Group != "" {
		if problems := validation.IsDNS1123Subdomain(counted.Group); len(problems) > 0 {
			return notA(counted.Group, "API group", problems)
		}
	}
	if counted.Resource == "events" && (counted.Group == "" || counted.Group == "events.k8s.io") {
		return "events expire, and no quota counts them"
	}
	if known != nil && !known(counted) {
		return fmt.Sprintf("spaces have no resource %q in API group %q; name it in the plural, with its group: count/RESOURCE.GROUP", counted.Resource, counted.Group)
	}
	return ""
}

func notA(text, what string, problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return fmt.Sprintf("%q is no %s: %s", text, what, strings.Join(problems, "; "))
}
