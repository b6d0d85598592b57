package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// maxRouteBytes is how large the spec of an HTTPRoute may be, in bytes of JSON: the host's API server, its etcd and
	// what serves the Gateway have all of it at each change.
	maxRouteBytes = 32 << 10
	// maxStatusBytes is how large a status may be for the syncer to say anything in it: chosen, what it says itself is
	// 50 KB at most.
	maxStatusBytes = 64 << 10
	// droppedBytes is the field in which SlimRoute leaves how large a spec was that it has dropped. The API has none of
	// this name.
	droppedBytes = "droppedBytes"
	// MaxParents, maxRouteNames and maxRouteRules are how many parentRefs, host names and rules an HTTPRoute has at
	// most, as in the API.
	MaxParents    = 32
	maxRouteNames = 16
	maxRouteRules = 16
	// maxMatches is how many matches it has at most, counted for each of its host names: what serves Gateways has an
	// entry for each.
	maxMatches = 256
	// maxTimeout is for how long a request may keep what all tenants share.
	maxTimeout = 5 * time.Minute
	// maxHeader is how long the value of a header may be, in bytes.
	maxHeader = 1024
)

// headerCharacters are those of headers that filters set, beside letters and digits: proxies put values into their
// configuration, where some of the others are variables, formats or ends.
const headerCharacters = " /._~!&,:;=@+*()?-"

var (
	headerValue = regexp.MustCompile(`^[A-Za-z0-9` + regexp.QuoteMeta(headerCharacters) + `]*$`)
	headerName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,255}$`)
	// reservedHeaders say which request is whose on a connection, and where it ends. One of them in a proxy's
	// configuration may be why that is not loaded any more, for any tenant. By others, some proxies are told what to
	// do: how often to try again, what to send, or to whom. Load balancers of clouds refuse all of a Gateway that sets
	// theirs.
	reservedHeaders = regexp.MustCompile(`(?i)^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|http2-settings|x-envoy-.*|x-accel-.*|l5d-.*|linkerd-.*|x-goog.*|x-gfe.*|x-amz-.*|x-user-ip|cdn-loop|authority)$`)
	// routeMethods are those of requests that a Service answers: one of CONNECT is for a proxy.
	routeMethods = []gatewayv1.HTTPMethod{
		gatewayv1.HTTPMethodGet, gatewayv1.HTTPMethodHead, gatewayv1.HTTPMethodPost, gatewayv1.HTTPMethodPut, gatewayv1.HTTPMethodDelete,
		gatewayv1.HTTPMethodOptions, gatewayv1.HTTPMethodPatch, gatewayv1.HTTPMethodTrace,
	}
	// routeMetadata is what is read of the metadata of routes of spaces.
	routeMetadata = []string{"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "annotations"}
	routeFilters  = []gatewayv1.HTTPRouteFilterType{
		gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier,
		gatewayv1.HTTPRouteFilterRequestRedirect, gatewayv1.HTTPRouteFilterURLRewrite,
	}
)

// HasRoutes reports whether HTTPRoutes of the tenant may be on the host.
func (r Rules) HasRoutes() bool { return len(r.Gateways) > 0 && len(r.HostNames) > 0 }

// Covers reports whether the tenant may have the host names and Gateways of an HTTPRoute of the host.
func (r Rules) Covers(host *gatewayv1.HTTPRoute) bool {
	return !slices.ContainsFunc(host.Spec.Hostnames, func(name gatewayv1.Hostname) bool { return !v1alpha1.HasHostName(r.HostNames, string(name)) }) &&
		!slices.ContainsFunc(host.Spec.ParentRefs, func(ref gatewayv1.ParentReference) bool { return !r.Grants(&ref) })
}

// ParentsOf returns the parentRefs of an HTTPRoute of a space by which it may be for a Gateway of another namespace, in
// their order. What cannot be read is none.
func ParentsOf(route *unstructured.Unstructured) (refs []gatewayv1.ParentReference) {
	all, _, _ := unstructured.NestedFieldNoCopy(route.Object, "spec", "parentRefs")
	list, _ := all.([]any)
	for _, one := range list[:min(len(list), MaxParents)] {
		written, ok := one.(map[string]any)
		var ref gatewayv1.ParentReference
		if !ok || runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(written, &ref, true) != nil {
			continue
		}
		if GatewayOf(&ref) != "" {
			refs = append(refs, ref)
		}
	}
	return refs
}

// GatewayOf returns the NAMESPACE/NAME of the Gateway that a parentRef names, empty if it names none, or one of the
// route's own namespace by naming no other.
func GatewayOf(ref *gatewayv1.ParentReference) string {
	isGateway := ptr.Deref(ref.Group, gatewayv1.GroupName) == gatewayv1.GroupName && ptr.Deref(ref.Kind, "Gateway") == "Gateway"
	if namespace := ptr.Deref(ref.Namespace, ""); isGateway && namespace != "" {
		return string(namespace) + "/" + string(ref.Name)
	}
	return ""
}

// Grants reports whether a parentRef names a Gateway of the host that the Tenant is granted.
func (r Rules) Grants(ref *gatewayv1.ParentReference) bool {
	return slices.Contains(r.Gateways, GatewayOf(ref))
}

// NotGranted says why a parentRef has no effect on the host.
func (r Rules) NotGranted(ref *gatewayv1.ParentReference) string {
	return fmt.Sprintf("HTTPRoutes of this Tenant may name the Gateways %s; name one of these, or ask the platform's administrators for %q in workloads.gateways of the Tenant",
		oneOf(r.Gateways), GatewayOf(ref))
}

// SlimRoute drops of an HTTPRoute of a space, for a cache of those of all spaces, what nobody reads. Of a spec that is
// too large for a host, only parentRefs are kept, which the refusal needs. A status that is too large is replaced by
// one without room, so that nothing is added to it.
func SlimRoute(route *unstructured.Unstructured) {
	metadata, _ := route.Object["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(key string, _ any) bool { return !slices.Contains(routeMetadata, key) })
	annotations := route.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !forRoutes.keys.MatchString(key) })
	route.SetAnnotations(annotations)
	if n := bytesOf(route.Object["spec"]); n > maxRouteBytes {
		refs, _, _ := unstructured.NestedFieldNoCopy(route.Object, "spec", "parentRefs")
		list, _ := refs.([]any)
		route.Object["spec"] = map[string]any{"parentRefs": slices.Clone(list[:min(len(list), MaxParents)]), droppedBytes: int64(n)}
	}
	if bytesOf(route.Object["status"]) > maxStatusBytes {
		route.Object["status"] = map[string]any{"parents": make([]any, MaxParents)}
	}
}

// bytesOf returns how large a value is as JSON, of which it was read.
func bytesOf(value any) int {
	written, err := json.Marshal(value)
	if err != nil {
		return math.MaxInt // it cannot be sent, either
	}
	return len(written)
}

// RouteOf reads an HTTPRoute of a space, without its status. Its definition is another one than this version's may be,
// so a field that this version does not know, or a value of another type, is an error.
func RouteOf(object *unstructured.Unstructured) (*gatewayv1.HTTPRoute, error) {
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok {
		return nil, errors.New("spec: it is missing")
	}
	size := bytesOf(spec)
	if dropped, ok := spec[droppedBytes].(int64); ok {
		size = int(dropped)
	}
	if size > maxRouteBytes {
		return nil, fmt.Errorf("spec: it has %d bytes, and an HTTPRoute on a host cluster has at most %d; divide it", size, maxRouteBytes)
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(), Generation: object.GetGeneration(), Annotations: object.GetAnnotations(),
	}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &route.Spec, true); err != nil {
		return nil, fmt.Errorf("spec: this version of Tenantry does not know what a host makes of it: %w", err)
	}
	return route, nil
}

// CheckRoute returns what of an HTTPRoute a host must not get. Of its parentRefs those count that the Tenant is
// granted.
func (r Rules) CheckRoute(route *gatewayv1.HTTPRoute) field.ErrorList {
	spec, path := &route.Spec, field.NewPath("spec")
	if errs := checkRouteSize(spec, path); len(errs) > 0 {
		return errs // what follows looks at everything
	}
	errs := append(checkFields(reflect.ValueOf(spec).Elem(), path), checkAnnotations(&route.ObjectMeta, nil, forRoutes)...)
	for i := range spec.ParentRefs {
		if ref := &spec.ParentRefs[i]; r.Grants(ref) && ptr.Deref(ref.SectionName, "") != "" && len(validation.IsDNS1123Subdomain(string(*ref.SectionName))) > 0 {
			errs = append(errs, field.Forbidden(path.Child("parentRefs").Index(i).Child("sectionName"), "it is the name of no listener; name one that there can be"))
		}
	}
	errs = append(errs, r.checkRouteNames(spec.Hostnames, path.Child("hostnames"))...)
	for i := range spec.Rules {
		errs = append(errs, checkRouteRule(&spec.Rules[i], route.Namespace, path.Child("rules").Index(i))...)
	}
	return errs
}

// checkRouteSize refuses a route that costs what serves it much.
func checkRouteSize(spec *gatewayv1.HTTPRouteSpec, path *field.Path) field.ErrorList {
	matches := 0
	for i := range spec.Rules {
		matches += max(1, len(spec.Rules[i].Matches))
	}
	if len(spec.Hostnames) > maxRouteNames || len(spec.Rules) > maxRouteRules || len(spec.ParentRefs) > MaxParents || matches*max(1, len(spec.Hostnames)) > maxMatches {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("on a host cluster, an HTTPRoute has at most %d parentRefs, %d host names, %d rules, and %d matches, counted for each of its host names; divide it",
			MaxParents, maxRouteNames, maxRouteRules, maxMatches))}
	}
	return nil
}

// checkRouteNames refuses host names that are not the tenant's.
func (r Rules) checkRouteNames(all []gatewayv1.Hostname, path *field.Path) (errs field.ErrorList) {
	if len(all) == 0 {
		return field.ErrorList{field.Forbidden(path, "without host names, an HTTPRoute would have what is sent for every host name of its Gateways; name some of "+oneOf(r.HostNames))}
	}
	for i, name := range all {
		switch at := path.Index(i); {
		case strings.Contains(string(name), "*"):
			errs = append(errs, field.Forbidden(at, "a star in an HTTPRoute is for names of any number of labels, and one in workloads.hostNames of the Tenant for one label; name them one by one"))
		case !v1alpha1.HasHostName(r.HostNames, string(name)):
			errs = append(errs, r.notTheirs("HTTPRoutes", string(name), at))
		}
	}
	return errs
}

func checkRouteRule(rule *gatewayv1.HTTPRouteRule, flat string, path *field.Path) (errs field.ErrorList) {
	for i := range rule.Matches {
		errs = append(errs, checkMatch(&rule.Matches[i], path.Child("matches").Index(i))...)
	}
	for i := range rule.Filters {
		errs = append(errs, checkFilter(&rule.Filters[i], path.Child("filters").Index(i))...)
	}
	for i := range rule.BackendRefs {
		errs = append(errs, checkBackend(&rule.BackendRefs[i].BackendObjectReference, flat, path.Child("backendRefs").Index(i))...)
	}
	if rule.Timeouts != nil {
		errs = append(errs, checkTimeout(rule.Timeouts.Request, path.Child("timeouts", "request"))...)
		errs = append(errs, checkTimeout(rule.Timeouts.BackendRequest, path.Child("timeouts", "backendRequest"))...)
	}
	return errs
}

// checkBackend refuses backends that are not Services of the route's own namespace.
func checkBackend(ref *gatewayv1.BackendObjectReference, flat string, path *field.Path) (errs field.ErrorList) {
	if ptr.Deref(ref.Group, "") != "" || ptr.Deref(ref.Kind, "Service") != "Service" {
		errs = append(errs, field.Forbidden(path.Child("kind"), string(noResource)))
	}
	_, own := tenant.Flat(flat).Split()
	if namespace := string(ptr.Deref(ref.Namespace, "")); namespace != "" && namespace != own {
		errs = append(errs, field.Forbidden(path.Child("namespace"), "on a host cluster, backends are Services of the route's own namespace; put the HTTPRoute into that of the Service"))
	}
	if len(validation.IsDNS1123Label(string(ref.Name))) > 0 {
		errs = append(errs, field.Forbidden(path.Child("name"), "it is the name of no Service; name one that there can be"))
	}
	return errs
}

// checkMatch refuses matches that are expressions, and what could be more than text where it is written into a
// configuration.
func checkMatch(match *gatewayv1.HTTPRouteMatch, path *field.Path) (errs field.ErrorList) {
	if match.Path != nil {
		if of := ptr.Deref(match.Path.Type, gatewayv1.PathMatchPathPrefix); of != gatewayv1.PathMatchExact && of != gatewayv1.PathMatchPathPrefix {
			errs = append(errs, noExpression(path.Child("path", "type"), "Exact or PathPrefix"))
		}
		errs = append(errs, checkPath(ptr.Deref(match.Path.Value, "/"), path.Child("path", "value"))...)
	}
	if match.Method != nil && !slices.Contains(routeMethods, *match.Method) {
		errs = append(errs, field.Forbidden(path.Child("method"), "a Service answers no such request; use another method"))
	}
	for i, header := range match.Headers {
		at := path.Child("headers").Index(i)
		if ptr.Deref(header.Type, gatewayv1.HeaderMatchExact) != gatewayv1.HeaderMatchExact {
			errs = append(errs, noExpression(at.Child("type"), "Exact"))
		}
		errs = append(errs, checkMatched(string(header.Name), header.Value, at)...)
	}
	for i, param := range match.QueryParams {
		at := path.Child("queryParams").Index(i)
		if ptr.Deref(param.Type, gatewayv1.QueryParamMatchExact) != gatewayv1.QueryParamMatchExact {
			errs = append(errs, noExpression(at.Child("type"), "Exact"))
		}
		errs = append(errs, checkMatched(string(param.Name), param.Value, at)...)
	}
	return errs
}

func noExpression(path *field.Path, instead string) *field.Error {
	return field.Forbidden(path, "expressions of a tenant are not for what serves all tenants; use "+instead)
}

// checkMatched refuses names and values of headers and queries that have characters which paths may not have, either.
func checkMatched(name, value string, path *field.Path) (errs field.ErrorList) {
	if !headerName.MatchString(name) {
		errs = append(errs, badHeaderName(path.Child("name")))
	}
	if !isPath("/" + value) {
		errs = append(errs, field.Forbidden(path.Child("value"), fmt.Sprintf("on a host cluster, what is matched has less than %d letters, digits and characters of %s; use others", maxPath, pathCharacters)))
	}
	return errs
}

func badHeaderName(path *field.Path) *field.Error {
	return field.Forbidden(path, "on a host cluster, names of headers and parameters begin with a letter or digit, and have at most 256 letters, digits, - and _; use another one")
}

func checkFilter(filter *gatewayv1.HTTPRouteFilter, path *field.Path) (errs field.ErrorList) {
	if !slices.Contains(routeFilters, filter.Type) {
		return field.ErrorList{field.Forbidden(path.Child("type"), string(noFilter))}
	}
	errs = append(errs, checkModifier(filter.RequestHeaderModifier, path.Child("requestHeaderModifier"))...)
	errs = append(errs, checkModifier(filter.ResponseHeaderModifier, path.Child("responseHeaderModifier"))...)
	if redirect := filter.RequestRedirect; redirect != nil {
		errs = append(errs, checkTarget(redirect.Hostname, redirect.Path, path.Child("requestRedirect"))...)
		if scheme := ptr.Deref(redirect.Scheme, "https"); scheme != "http" && scheme != "https" {
			errs = append(errs, field.Forbidden(path.Child("requestRedirect", "scheme"), "a redirect leads to http or https; use one of these"))
		}
	}
	if rewrite := filter.URLRewrite; rewrite != nil {
		errs = append(errs, checkTarget(rewrite.Hostname, rewrite.Path, path.Child("urlRewrite"))...)
	}
	return errs
}

// checkTarget refuses host names and paths of redirects and rewritten requests that are none.
func checkTarget(name *gatewayv1.PreciseHostname, modifier *gatewayv1.HTTPPathModifier, path *field.Path) (errs field.ErrorList) {
	if name != nil && len(validation.IsDNS1123Subdomain(string(*name))) > 0 {
		errs = append(errs, field.Forbidden(path.Child("hostname"), "it is no host name; use one that there can be"))
	}
	if modifier == nil {
		return errs
	}
	errs = append(errs, checkReplaced(ptr.Deref(modifier.ReplaceFullPath, ""), path.Child("path", "replaceFullPath"))...)
	return append(errs, checkReplaced(ptr.Deref(modifier.ReplacePrefixMatch, ""), path.Child("path", "replacePrefixMatch"))...)
}

// checkReplaced refuses what is written as a path, if it is not empty, and is more than text to some proxies: it is a
// format to them.
func checkReplaced(text string, path *field.Path) field.ErrorList {
	switch {
	case text == "":
		return nil
	case strings.Contains(text, "%"):
		return field.ErrorList{field.Forbidden(path, "on a host cluster, a path that a filter writes has no %; have the Service redirect to it")}
	default:
		return checkPath(text, path)
	}
}

// checkModifier refuses headers that are of the connection, and values that are more than text to some proxies.
func checkModifier(filter *gatewayv1.HTTPHeaderFilter, path *field.Path) (errs field.ErrorList) {
	if filter == nil {
		return nil
	}
	errs = append(checkHeaders(filter.Set, path.Child("set")), checkHeaders(filter.Add, path.Child("add"))...)
	for i, name := range filter.Remove {
		errs = append(errs, checkHeaderName(name, path.Child("remove").Index(i))...)
	}
	return errs
}

func checkHeaders(all []gatewayv1.HTTPHeader, path *field.Path) (errs field.ErrorList) {
	for i, header := range all {
		errs = append(errs, checkHeaderName(string(header.Name), path.Index(i).Child("name"))...)
		if len(header.Value) > maxHeader || !headerValue.MatchString(header.Value) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("value"), fmt.Sprintf("on a host cluster, headers have at most %d letters, digits, blanks and characters of%s; use others, or have the Service answer with it",
				maxHeader, headerCharacters)))
		}
	}
	return errs
}

func checkHeaderName(name string, path *field.Path) field.ErrorList {
	switch {
	case !headerName.MatchString(name):
		return field.ErrorList{badHeaderName(path)}
	case reservedHeaders.MatchString(name):
		return field.ErrorList{field.Forbidden(path, "this header is for the connection, or for what serves the Gateway; remove it, or use urlRewrite for the host name")}
	default:
		return nil
	}
}

// duration is that of the API.
var duration = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

// checkTimeout refuses timeouts that keep what all tenants share for long. Zero is without an end.
func checkTimeout(timeout *gatewayv1.Duration, path *field.Path) field.ErrorList {
	if timeout == nil {
		return nil
	}
	if d, err := time.ParseDuration(string(*timeout)); err == nil && duration.MatchString(string(*timeout)) && 0 < d && d <= maxTimeout {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf("on a host cluster, a timeout is more than 0s, and %s at most; use another one, or remove it", maxTimeout))}
}

// Route returns the HTTPRoute of the host for one of a space, which CheckRoute has nothing against, with those of its
// parentRefs that are for Gateways of the host. The result shares nothing with its input.
func (r Rules) Route(route *gatewayv1.HTTPRoute, home names.Namespace) *gatewayv1.HTTPRoute {
	host := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{
			Name: route.Name, Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: home.Installation},
			Annotations: home.MarksOf(route.Name, route.UID),
		},
		Spec: *route.Spec.DeepCopy(),
	}
	host.Spec.ParentRefs = slices.DeleteFunc(host.Spec.ParentRefs, func(ref gatewayv1.ParentReference) bool { return !r.Grants(&ref) })
	for i := range host.Spec.Rules {
		for j := range host.Spec.Rules[i].BackendRefs {
			host.Spec.Rules[i].BackendRefs[j].Namespace = nil
		}
	}
	return host
}
