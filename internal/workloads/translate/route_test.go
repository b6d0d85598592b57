package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// routed are the rules of a Tenant that may have HTTPRoutes.
var routed = Rules{HostNames: []string{"*.acme.example.com", "acme.example.com"}, Gateways: []string{"infra/public", "infra/slow"}}

// spaceRoute is one that may be on the host, as a space has it.
const spaceRoute = `{"metadata": {"name": "web", "namespace": "acme|shop", "uid": "r", "generation": 3, "labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["f"]},
"spec": {
	"parentRefs": [{"namespace": "infra", "name": "public", "sectionName": "web", "port": 80}, {"name": "own"}, {"namespace": "theirs", "name": "g"}],
	"hostnames": ["shop.acme.example.com"],
	"rules": [{
		"name": "r", "timeouts": {"request": "10s", "backendRequest": "2s500ms"},
		"matches": [{"path": {"type": "PathPrefix", "value": "/cart-1/~me/%20"}, "method": "GET", "headers": [{"name": "X-A", "value": "1"}], "queryParams": [{"type": "Exact", "name": "q", "value": "a/b"}]}],
		"filters": [
			{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "X-From", "value": "a; b=(c)"}], "add": [{"name": "X-B", "value": ""}], "remove": ["X-C"]}},
			{"type": "ResponseHeaderModifier", "responseHeaderModifier": {"remove": ["Server"]}},
			{"type": "URLRewrite", "urlRewrite": {"hostname": "web.example.com", "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}],
		"backendRefs": [{"name": "web", "port": 80, "weight": 1}, {"group": "", "kind": "Service", "namespace": "shop", "name": "cart", "port": 81}]
	}, {"filters": [{"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "hostname": "acme.example.com", "port": 443, "statusCode": 301, "path": {"type": "ReplaceFullPath", "replaceFullPath": "/x"}}}]}]
}}`

// routeWith returns that route with another value at a place, of an element by its index.
func routeWith(t *testing.T, value any, at ...any) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := json.Unmarshal([]byte(spaceRoute), &content); err != nil {
		t.Fatal(err)
	}
	var in any = content
	for i, key := range at {
		last := i == len(at)-1
		switch k := key.(type) {
		case string:
			if m := in.(map[string]any); last {
				m[k] = value
			} else {
				in = m[k]
			}
		case int:
			if l := in.([]any); last {
				l[k] = value
			} else {
				in = l[k]
			}
		}
	}
	written, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(written, &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestCheckRoute(t *testing.T) {
	rule := func(at ...any) []any { return append([]any{"spec", "rules", 0}, at...) }
	many := func(n int, of any) (all []any) {
		for range n {
			all = append(all, of)
		}
		return all
	}
	match := map[string]any{"path": map[string]any{"value": "/"}}
	for name, tc := range map[string]struct {
		at    []any
		value any
		want  string
	}{
		"one that may be":                   {at: []any{"metadata", "name"}, value: "web"},
		"a name itself":                     {at: []any{"spec", "hostnames"}, value: []any{"acme.example.com"}},
		"without names":                     {at: []any{"spec", "hostnames"}, value: []any{}, want: "spec.hostnames: Forbidden: without host names, an HTTPRoute would have what is sent for every host name of its Gateways; name some of *.acme"},
		"another's":                         {at: []any{"spec", "hostnames", 0}, value: "shop.globex.example.com", want: `spec.hostnames[0]: Forbidden: HTTPRoutes of this Tenant may name *.acme.example.com, acme.example.com; name one of these, or ask the platform's administrators for "shop.globex.example.com"`},
		"two labels below":                  {at: []any{"spec", "hostnames", 0}, value: "a.b.acme.example.com", want: "spec.hostnames[0]: Forbidden"},
		"a star":                            {at: []any{"spec", "hostnames", 0}, value: "*.acme.example.com", want: "spec.hostnames[0]: Forbidden: a star in an HTTPRoute is for names of any number of labels"},
		"an empty name":                     {at: []any{"spec", "hostnames", 0}, value: "", want: "spec.hostnames[0]: Forbidden"},
		"in capitals":                       {at: []any{"spec", "hostnames", 0}, value: "Shop.acme.example.com", want: "spec.hostnames[0]: Forbidden"},
		"a listener that can be none":       {at: []any{"spec", "parentRefs", 0, "sectionName"}, value: "a b", want: "spec.parentRefs[0].sectionName: Forbidden"},
		"default Gateways":                  {at: []any{"spec", "useDefaultGateways"}, value: "All", want: "spec.useDefaultGateways: Forbidden"},
		"a backend of another namespace":    {at: rule("backendRefs", 1, "namespace"), value: "theirs", want: "spec.rules[0].backendRefs[1].namespace: Forbidden: on a host cluster, backends are Services of the route's own namespace"},
		"a backend by the name on the host": {at: rule("backendRefs", 1, "namespace"), value: "acme|shop", want: "spec.rules[0].backendRefs[1].namespace: Forbidden"},
		"a backend of another kind":         {at: rule("backendRefs", 0, "kind"), value: "Backend", want: "spec.rules[0].backendRefs[0].kind: Forbidden"},
		"a backend of another group":        {at: rule("backendRefs", 0, "group"), value: "example.com", want: "spec.rules[0].backendRefs[0].kind: Forbidden"},
		"a backend that can be none":        {at: rule("backendRefs", 0, "name"), value: "../web", want: "spec.rules[0].backendRefs[0].name: Forbidden"},
		"a filter of a backend":             {at: rule("backendRefs", 0, "filters"), value: many(1, map[string]any{"type": "URLRewrite"}), want: "spec.rules[0].backendRefs[0].filters: Forbidden: filters are of a rule"},
		"a mirror":                          {at: rule("filters", 0), value: map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{"backendRef": map[string]any{"name": "web"}}}, want: "spec.rules[0].filters[0].type: Forbidden"},
		"a mirror of another type":          {at: rule("filters", 0, "requestMirror"), value: map[string]any{"backendRef": map[string]any{"name": "web"}}, want: "spec.rules[0].filters[0].requestMirror: Forbidden"},
		"an extension":                      {at: rule("filters", 0), value: map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"group": "g", "kind": "k", "name": "n"}}, want: "spec.rules[0].filters[0].extensionRef: Forbidden"},
		"an extension without one":          {at: rule("filters", 0, "type"), value: "ExtensionRef", want: "spec.rules[0].filters[0].type: Forbidden: what serves Gateways could reach by it"},
		"external authorization":            {at: rule("filters", 0, "externalAuth"), value: map[string]any{"protocol": "HTTP", "backendRef": map[string]any{"name": "web"}}, want: "spec.rules[0].filters[0].externalAuth: Forbidden"},
		"CORS":                              {at: rule("filters", 0, "cors"), value: map[string]any{"maxAge": 5}, want: "spec.rules[0].filters[0].cors: Forbidden"},
		"retries":                           {at: rule("retry"), value: map[string]any{"attempts": 100}, want: "spec.rules[0].retry: Forbidden"},
		"sessions":                          {at: rule("sessionPersistence"), value: map[string]any{"sessionName": "s"}, want: "spec.rules[0].sessionPersistence: Forbidden"},
		"a later field":                     {at: rule("later"), value: 1, want: "does not know what a host makes of it"},
		"a value of another type":           {at: rule("backendRefs", 0, "port"), value: "80", want: "does not know what a host makes of it"},
		"no list":                           {at: []any{"spec", "rules"}, value: "x", want: "does not know what a host makes of it"},
		"no spec":                           {at: []any{"spec"}, value: []any{}, want: "spec: it is missing"},
		"a path that is an expression":      {at: rule("matches", 0, "path", "type"), value: "RegularExpression", want: "spec.rules[0].matches[0].path.type: Forbidden: expressions of a tenant"},
		"a path that is configuration":      {at: rule("matches", 0, "path", "value"), value: "/; }", want: "spec.rules[0].matches[0].path.value: Forbidden"},
		"a header that is an expression":    {at: rule("matches", 0, "headers", 0, "type"), value: "RegularExpression", want: "spec.rules[0].matches[0].headers[0].type: Forbidden"},
		"a header that is configuration":    {at: rule("matches", 0, "headers", 0, "value"), value: `"`, want: "spec.rules[0].matches[0].headers[0].value: Forbidden"},
		"a header with a bad name":          {at: rule("matches", 0, "headers", 0, "name"), value: ":path", want: "spec.rules[0].matches[0].headers[0].name: Forbidden"},
		"a query that is an expression":     {at: rule("matches", 0, "queryParams", 0, "type"), value: "RegularExpression", want: "spec.rules[0].matches[0].queryParams[0].type: Forbidden"},
		"a query that is configuration":     {at: rule("matches", 0, "queryParams", 0, "value"), value: "$x", want: "spec.rules[0].matches[0].queryParams[0].value: Forbidden"},
		"a request for a proxy":             {at: rule("matches", 0, "method"), value: "CONNECT", want: "spec.rules[0].matches[0].method: Forbidden"},
		"a host name as a header":           {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "name"), value: "Host", want: "spec.rules[0].filters[0].requestHeaderModifier.set[0].name: Forbidden: this header is for the connection"},
		"a header of the connection":        {at: rule("filters", 0, "requestHeaderModifier", "add", 0, "name"), value: "transfer-encoding", want: "add[0].name: Forbidden: this header is for the connection"},
		"a header that is none":             {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "name"), value: ":authority", want: "set[0].name: Forbidden: on a host cluster, names of headers"},
		"a header of Linkerd":               {at: rule("filters", 0, "requestHeaderModifier", "add", 0, "name"), value: "l5d-dst-override", want: "add[0].name: Forbidden: this header is for the connection"},
		"a header of a cloud":               {at: rule("filters", 0, "requestHeaderModifier", "add", 0, "name"), value: "X-Goog-Api-Key", want: "add[0].name: Forbidden: this header is for the connection"},
		"a header of Envoy":                 {at: rule("filters", 0, "requestHeaderModifier", "add", 0, "name"), value: "X-Envoy-Max-Retries", want: "add[0].name: Forbidden: this header is for the connection"},
		"a format as a path":                {at: rule("filters", 2, "urlRewrite", "path", "replacePrefixMatch"), value: "/a%zz", want: "a path that a filter writes has no %"},
		"a length that is gone":             {at: rule("filters", 1, "responseHeaderModifier", "remove", 0), value: "Content-Length", want: "remove[0]: Forbidden: this header is for the connection"},
		"a value that is a variable":        {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "value"), value: "%ENVIRONMENT(TOKEN)%", want: "set[0].value: Forbidden"},
		"a value that is another variable":  {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "value"), value: "$hostname", want: "set[0].value: Forbidden"},
		"a value that ends":                 {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "value"), value: "a\nb", want: "set[0].value: Forbidden"},
		"a value that is long":              {at: rule("filters", 0, "requestHeaderModifier", "set", 0, "value"), value: strings.Repeat("a", maxHeader+1), want: "set[0].value: Forbidden"},
		"a rewritten path":                  {at: rule("filters", 2, "urlRewrite", "path", "replacePrefixMatch"), value: "/a b", want: "urlRewrite.path.replacePrefixMatch: Forbidden"},
		"a rewritten name":                  {at: rule("filters", 2, "urlRewrite", "hostname"), value: "a b", want: "urlRewrite.hostname: Forbidden"},
		"a redirect elsewhere":              {at: []any{"spec", "rules", 1, "filters", 0, "requestRedirect", "scheme"}, value: "javascript", want: "requestRedirect.scheme: Forbidden"},
		"no timeout":                        {at: rule("timeouts", "request"), value: "0s", want: "spec.rules[0].timeouts.request: Forbidden: on a host cluster, a timeout is more than 0s, and 5m0s at most"},
		"a long timeout":                    {at: rule("timeouts", "backendRequest"), value: "6m", want: "spec.rules[0].timeouts.backendRequest: Forbidden"},
		"a timeout of another form":         {at: rule("timeouts", "request"), value: "1.5s", want: "spec.rules[0].timeouts.request: Forbidden"},
		"many rules":                        {at: []any{"spec", "rules"}, value: many(maxRouteRules+1, map[string]any{}), want: "spec: Forbidden: on a host cluster, an HTTPRoute has at most"},
		"as many rules as may be":           {at: []any{"spec", "rules"}, value: many(maxRouteRules, map[string]any{})},
		"many matches":                      {at: rule("matches"), value: many(maxMatches, match), want: "spec: Forbidden"},
		"as many matches as may be":         {at: rule("matches"), value: many(maxMatches-1, match)},
		"many names":                        {at: []any{"spec", "hostnames"}, value: many(maxRouteNames+1, "acme.example.com"), want: "spec: Forbidden"},
		"many parents":                      {at: []any{"spec", "parentRefs"}, value: many(MaxParents+1, map[string]any{"name": "g"}), want: "spec: Forbidden"},
		"many bytes":                        {at: rule("matches", 0, "headers"), value: many(40, map[string]any{"name": "A", "value": strings.Repeat("a", 1000)}), want: "bytes, and an HTTPRoute on a host cluster has at most 32768; divide it"},
		"an annotation of a controller":     {at: []any{"metadata", "annotations"}, value: map[string]any{"konghq.com/plugins": "p"}, want: "metadata.annotations[konghq.com/plugins]: Forbidden: annotations tell what serves Gateways of all tenants what to do; remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			route, err := RouteOf(routeWith(t, tc.value, tc.at...))
			if err == nil {
				err = routed.CheckRoute(route).ToAggregate()
			}
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestSlimRoute checks that of a route that is not for the host nothing is kept but why.
func TestSlimRoute(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	usual := routeWith(t, map[string]any{"konghq.com/plugins": "p"}, "metadata", "annotations")
	usual.SetLabels(nil)
	usual.SetFinalizers(nil)
	slim := routeWith(t, map[string]any{"konghq.com/plugins": "p", "kubectl.kubernetes.io/last-applied-configuration": long}, "metadata", "annotations")
	slim.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
	SlimRoute(slim)
	if diff := cmp.Diff(usual, slim); diff != "" {
		t.Errorf("one that may be there (-want +got):\n%s", diff)
	}
	large := routeWith(t, long, "spec", "rules", 0, "name")
	for i := range 2 * MaxParents {
		parents, _, _ := unstructured.NestedSlice(large.Object, "spec", "parentRefs")
		large.Object["spec"].(map[string]any)["parentRefs"] = append(parents, map[string]any{"name": fmt.Sprint(i)})
	}
	large.Object["status"] = map[string]any{"parents": []any{map[string]any{"controllerName": long}}}
	_, want := RouteOf(large)
	refs := ParentsOf(large)
	for range 2 { // as an informer that lists does
		SlimRoute(large)
	}
	if _, err := RouteOf(large); err == nil || err.Error() != want.Error() {
		t.Errorf("why it is not there is %v, want %v", err, want)
	}
	if diff := cmp.Diff(refs, ParentsOf(large)); diff != "" || len(refs) == 0 {
		t.Errorf("it names (-want +got):\n%s", diff)
	}
	if parents, _, _ := unstructured.NestedFieldNoCopy(large.Object, "status", "parents"); len(parents.([]any)) != MaxParents {
		t.Errorf("its status is not full: %v", parents)
	}
	if n := bytesOf(large.Object); n > maxRouteBytes {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestRoute(t *testing.T) {
	read, err := RouteOf(routeWith(t, "web", "metadata", "name"))
	if err != nil {
		t.Fatal(err)
	}
	if errs := routed.CheckRoute(read); len(errs) > 0 {
		t.Fatal(errs)
	}
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	got := routed.Route(read, home)
	want := read.DeepCopy()
	want.ObjectMeta = metav1.ObjectMeta{Name: "web", Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: home.MarksOf("web", "r")}
	want.Spec.ParentRefs = want.Spec.ParentRefs[:1]
	want.Spec.Rules[0].BackendRefs[1].Namespace = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(read.Spec.ParentRefs) != 3 || read.Spec.Rules[0].BackendRefs[1].Namespace == nil {
		t.Error("the route of the space has changed")
	}
}

func TestParentsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		refs any
		want []string
	}{
		"of the host":              {refs: []any{map[string]any{"namespace": "infra", "name": "public"}}, want: []string{"infra/public"}},
		"of another namespace":     {refs: []any{map[string]any{"namespace": "theirs", "name": "g", "kind": "Gateway", "group": "gateway.networking.k8s.io"}}, want: []string{"theirs/g"}},
		"of its own namespace":     {refs: []any{map[string]any{"name": "public"}}},
		"an empty namespace":       {refs: []any{map[string]any{"name": "public", "namespace": ""}}},
		"a Service":                {refs: []any{map[string]any{"namespace": "infra", "name": "public", "kind": "Service", "group": ""}}},
		"of another group":         {refs: []any{map[string]any{"namespace": "infra", "name": "public", "group": "example.com"}}},
		"a later field":            {refs: []any{map[string]any{"namespace": "infra", "name": "public", "later": true}}},
		"no object":                {refs: []any{"infra/public", map[string]any{"namespace": "infra", "name": "public"}}, want: []string{"infra/public"}},
		"no list":                  {refs: "infra/public"},
		"a value of another type":  {refs: []any{map[string]any{"namespace": "infra", "name": []any{}}}},
		"a name that is a path":    {refs: []any{map[string]any{"namespace": "infra/public", "name": "x"}}, want: []string{"infra/public/x"}},
		"an empty name, by a path": {refs: []any{map[string]any{"namespace": "infra/public", "name": ""}}, want: []string{"infra/public/"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, ref := range ParentsOf(routeWith(t, tc.refs, "spec", "parentRefs")) {
				got = append(got, GatewayOf(&ref))
				if granted := routed.Grants(&ref); granted != (got[0] == "infra/public") {
					t.Errorf("%q is granted: %v", got[0], granted)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := ParentsOf(routeWith(t, make([]any, 100), "spec", "parentRefs")); len(got) > 0 {
		t.Errorf("nothing is %v", got)
	}
	for _, rules := range []Rules{{}, {Gateways: routed.Gateways}, {HostNames: routed.HostNames}} {
		if rules.HasRoutes() {
			t.Errorf("%+v has routes", rules)
		}
	}
}

func TestRouteStatus(t *testing.T) {
	ref := gatewayv1.ParentReference{Namespace: new(gatewayv1.Namespace("infra")), Name: "public", SectionName: new(gatewayv1.SectionName("web"))}
	condition := func(of, reason string, generation int64) metav1.Condition {
		return metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: reason, Message: "conflicts with tn-globex-shop/web", ObservedGeneration: generation}
	}
	host := func(change func(*gatewayv1.RouteParentStatus), conditions ...metav1.Condition) *gatewayv1.HTTPRoute {
		said := gatewayv1.RouteParentStatus{ParentRef: *ref.DeepCopy(), ControllerName: "example.com/controller", Conditions: conditions}
		said.ParentRef.Group = new(gatewayv1.Group(gatewayv1.GroupName))
		if change != nil {
			change(&said)
		}
		route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Generation: 7}}
		route.Status.Parents = []gatewayv1.RouteParentStatus{said}
		return route
	}
	for name, tc := range map[string]struct {
		host *gatewayv1.HTTPRoute
		want []string
		ok   bool
	}{
		"nothing":             {host: &gatewayv1.HTTPRoute{}},
		"accepted":            {host: host(nil, condition("Accepted", "Accepted", 7), condition("ResolvedRefs", "ResolvedRefs", 7)), want: []string{"Accepted Accepted", "ResolvedRefs ResolvedRefs"}, ok: true},
		"of before":           {host: host(nil, condition("Accepted", "Accepted", 6)), ok: true},
		"of another listener": {host: host(func(s *gatewayv1.RouteParentStatus) { s.ParentRef.SectionName = nil }, condition("Accepted", "Accepted", 7))},
		"of another Gateway":  {host: host(func(s *gatewayv1.RouteParentStatus) { s.ParentRef.Name = "slow" }, condition("Accepted", "Accepted", 7))},
		"of others":           {host: host(nil, condition("example.com/Secret", "Accepted", 7)), ok: true},
		"with a long reason":  {host: host(nil, condition("Accepted", "see:tn_globex_shop", 7)), want: []string{"Accepted Unknown"}, ok: true},
		"twice":               {host: host(nil, condition("Accepted", "Accepted", 7), condition("Accepted", "Pending", 7)), want: []string{"Accepted Accepted"}, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			told, ok := RouteStatus(tc.host, ref, 3)
			var got []string
			for _, c := range told.Conditions {
				got = append(got, fmt.Sprint(c.Type, " ", c.Reason))
				if c.Message != "" || c.ObservedGeneration != 3 {
					t.Errorf("the space is told %+v", c)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok || told.ControllerName != RouteController {
				t.Errorf("%s, of %s: %v", diff, told.ControllerName, ok)
			}
		})
	}
}
