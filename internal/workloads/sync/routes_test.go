package sync

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// hostRoutes are the HTTPRoutes of the host's namespace of acme|shop, and what was asked for.
type hostRoutes struct {
	there   map[string]*gatewayv1.HTTPRoute
	did     []string
	refuses error
}

// Get implements writer.
func (h *hostRoutes) Get(_ context.Context, name string, _ metav1.GetOptions) (*gatewayv1.HTTPRoute, error) {
	if route := h.there[name]; route != nil {
		return route.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(routesResource.GroupResource(), name)
}

// Create implements writer.
func (h *hostRoutes) Create(_ context.Context, route *gatewayv1.HTTPRoute, _ metav1.CreateOptions) (*gatewayv1.HTTPRoute, error) {
	h.did = append(h.did, "create")
	if h.refuses != nil {
		return nil, h.refuses
	}
	if h.there[route.Name] != nil {
		return nil, apierrors.NewAlreadyExists(routesResource.GroupResource(), route.Name)
	}
	h.there[route.Name] = route.DeepCopy()
	return route, nil
}

// Update implements writer.
func (h *hostRoutes) Update(_ context.Context, route *gatewayv1.HTTPRoute, _ metav1.UpdateOptions) (*gatewayv1.HTTPRoute, error) {
	h.did = append(h.did, "update")
	h.there[route.Name] = route.DeepCopy()
	return route, nil
}

// Delete implements writer.
func (h *hostRoutes) Delete(_ context.Context, name string, options metav1.DeleteOptions) error {
	h.did = append(h.did, "delete "+string(*options.Preconditions.UID))
	delete(h.there, name)
	return nil
}

// addRoutes gives a syncer HTTPRoutes, of which all is known.
func (w *world) addRoutes(s *syncer) {
	w.t.Helper()
	w.routesInSpace = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		routesResource: "HTTPRouteList", definitionsResource: "CustomResourceDefinitionList",
	})
	w.routesOnHost = &hostRoutes{there: map[string]*gatewayv1.HTTPRoute{}}
	s.routes = &routes{spaces: w.routesInSpace, host: func(namespace string) writer[gatewayv1.HTTPRoute] {
		if namespace != home.Host() {
			w.t.Errorf("the namespace %q of the host is asked for", namespace)
		}
		return w.routesOnHost
	}}
	s.routes.inSpaces.state.Store(followed)
	s.routes.onHost.state.Store(followed)
	if err := s.routes.setInformers(w.routesInSpace, &cache.ListWatch{}); err != nil {
		w.t.Fatal(err)
	}
}

var (
	hasGateways = v1alpha1.Workloads{HostNames: []string{"*.acme.example.com"}, Gateways: []string{"infra/public"}}
	theRoute    = item{routeItem, "acme", "acme|shop", "web"}
)

func spaceRoute(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": map[string]any{"name": "web", "namespace": "acme|shop", "uid": "ru", "generation": int64(3)},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"namespace": "infra", "name": "public"}},
			"hostnames":  []any{"shop.acme.example.com"},
			"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": "web", "port": int64(80)}}}},
		},
	}}
	for _, change := range changes {
		change(u)
	}
	return u
}

// named has a route another host name, and ofGateway other parentRefs.
func named(name string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["hostnames"] = []any{name} }
}

func ofGateways(all ...string) func(*unstructured.Unstructured) {
	var refs []any
	for _, one := range all {
		namespace, name, _ := strings.Cut(one, "/")
		ref := map[string]any{"name": name}
		if namespace != "" {
			ref["namespace"] = namespace
		}
		refs = append(refs, ref)
	}
	return func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["parentRefs"] = refs }
}

// saying has a status of a route say something, of the host's Gateway or of somebody else's.
func saying(controller gatewayv1.GatewayController, gateway, status, reason string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		namespace, name, _ := strings.Cut(gateway, "/")
		before, _, _ := unstructured.NestedSlice(u.Object, "status", "parents")
		one := map[string]any{
			"controllerName": string(controller), "parentRef": map[string]any{"namespace": namespace, "name": name},
			"conditions": []any{map[string]any{"type": "Accepted", "status": status, "reason": reason, "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z", "observedGeneration": int64(3)}},
		}
		if err := unstructured.SetNestedSlice(u.Object, append(before, one), "status", "parents"); err != nil {
			panic(err)
		}
	}
}

// onHostRoute is the host's of one of a space.
func onHostRoute(w *world, of *unstructured.Unstructured, change func(*gatewayv1.HTTPRoute)) *gatewayv1.HTTPRoute {
	w.t.Helper()
	read, err := translate.RouteOf(of)
	if err != nil {
		w.t.Fatal(err)
	}
	host := rulesOf(tenantWith(hasGateways)).Route(read, home)
	host.UID = "hr"
	if change != nil {
		change(host)
	}
	w.routesOnHost.there[host.Name] = host.DeepCopy()
	w.see(host)
	return host
}

// accepted has the host say that a Gateway has a route.
func accepted(r *gatewayv1.HTTPRoute) {
	r.Status.Parents = []gatewayv1.RouteParentStatus{{
		ParentRef: r.Spec.ParentRefs[0], ControllerName: "example.com/controller",
		Conditions: []metav1.Condition{{Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: "beside tn-globex-shop/web", LastTransitionTime: metav1.Unix(0, 0)}},
	}}
}

// parents returns what the status of the route says in the space.
func (w *world) parents() (all []string) {
	w.t.Helper()
	got, err := w.routesInSpace.Resource(routesResource).Namespace("acme|shop").Get(w.t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(got.Object, "status", "parents")
	for _, one := range list {
		var said gatewayv1.RouteParentStatus
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.(map[string]any), &said); err != nil {
			w.t.Fatal(err)
		}
		for _, c := range said.Conditions {
			all = append(all, fmt.Sprintf("%s %s %s %s", said.ControllerName, translate.GatewayOf(&said.ParentRef), c.Status, c.Reason))
			if strings.Contains(c.Message, "globex-shop") {
				w.t.Errorf("the space is told: %s", c.Message)
			}
		}
	}
	return all
}

func TestRoutes(t *testing.T) {
	const (
		ours    = translate.RouteController
		refused = string(ours) + " infra/public False RefusedByHost"
	)
	withHost := func(change func(*gatewayv1.HTTPRoute)) func(*world) {
		return func(w *world) { onHostRoute(w, spaceRoute(), change) }
	}
	definition := func(labels map[string]string) func(*world) {
		return func(w *world) {
			withHost(nil)(w)
			d := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "acme|httproutes.gateway.networking.k8s.io"}}}
			d.SetLabels(labels)
			for _, o := range []*unstructured.Unstructured{d, spaceRoute()} {
				if err := w.routesInSpace.Tracker().Add(o); err != nil {
					w.t.Fatal(err)
				}
			}
		}
	}
	// takesOver gives the space a definition of its own.
	takesOver := func(w *world) {
		w.routesInSpace.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.Unstructured{Object: map[string]any{}}, nil
		})
	}
	// madeAgain gives the space another namespace of the name, which is newer than its routes.
	madeAgain := func(w *world) {
		w.see(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop", UID: "n", CreationTimestamp: metav1.Unix(2, 0)}})
	}
	ofBefore := func(u *unstructured.Unstructured) { u.SetCreationTimestamp(metav1.Unix(1, 0)) }
	withoutRoutes := func(w *world) {
		madeAgain(w)
		if err := w.routesInSpace.Tracker().Delete(routesResource, "acme|shop", "web"); err != nil {
			w.t.Fatal(err)
		}
	}
	full := spaceRoute(saying(ours, "infra/public", "True", "Accepted"))
	var others []string
	for n := range translate.MaxParents {
		gateway := fmt.Sprint("x/", n)
		saying("example.com/own", gateway, "True", "Accepted")(full)
		others = append(others, "example.com/own "+gateway+" True Accepted")
	}
	another := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, spaceRoute(func(u *unstructured.Unstructured) { u.SetUID("next") }), nil
	}
	nothing := v1alpha1.Workloads{}
	asTold := []string{string(ours) + " infra/public True Accepted"}
	for name, tc := range map[string]struct {
		may   *v1alpha1.Workloads
		route *unstructured.Unstructured
		// known is what is known of routes on the host.
		before        func(*world)
		events, shown int
		onHost        []string
		fail          string
		// host is the host name of the host's, empty if there is none, and parents what the space is told.
		host    string
		parents []string
	}{
		"a new one":                             {route: spaceRoute(), onHost: []string{"create"}, host: "shop.acme.example.com"},
		"one of a Tenant without":               {may: &nothing, route: spaceRoute()},
		"one for a Gateway of its space":        {route: spaceRoute(ofGateways("/public"))},
		"one for another of its space":          {route: spaceRoute(ofGateways("shop/public"))},
		"one for another of the host":           {route: spaceRoute(ofGateways("infra/other")), events: 1, shown: 1, parents: []string{string(ours) + " infra/other False RefusedByHost"}},
		"one for several":                       {route: spaceRoute(ofGateways("infra/public", "/own", "infra/other")), onHost: []string{"create"}, host: "shop.acme.example.com"},
		"one that is there":                     {route: spaceRoute(), before: withHost(nil), host: "shop.acme.example.com"},
		"one that has changed":                  {route: spaceRoute(named("cart.acme.example.com")), before: withHost(nil), onHost: []string{"update"}, host: "cart.acme.example.com"},
		"one that somebody changed":             {route: spaceRoute(), before: withHost(func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = nil }), onHost: []string{"update"}, host: "shop.acme.example.com"},
		"one that is accepted":                  {route: spaceRoute(), before: withHost(accepted), shown: 1, host: "shop.acme.example.com", parents: asTold},
		"one that is known as accepted":         {route: spaceRoute(saying(ours, "infra/public", "True", "Accepted")), before: withHost(accepted), host: "shop.acme.example.com", parents: asTold},
		"one of which others say more":          {route: spaceRoute(saying("example.com/own", "x/own", "True", "Accepted")), before: withHost(accepted), shown: 1, host: "shop.acme.example.com", parents: []string{"example.com/own x/own True Accepted", asTold[0]}},
		"one that is accepted no more":          {route: spaceRoute(saying(ours, "infra/public", "True", "Accepted")), before: withHost(nil), shown: 1, host: "shop.acme.example.com"},
		"one whose change is not read":          {route: spaceRoute(saying(ours, "infra/public", "True", "Accepted")), before: withHost(func(r *gatewayv1.HTTPRoute) { accepted(r); r.Generation = 2 }), host: "shop.acme.example.com", parents: asTold},
		"one that was made again":               {route: spaceRoute(func(u *unstructured.Unstructured) { u.SetUID("next") }), before: withHost(accepted), onHost: []string{"update"}, host: "shop.acme.example.com"},
		"one that is ending":                    {route: spaceRoute(func(u *unstructured.Unstructured) { u.SetDeletionTimestamp(new(metav1.Unix(1, 0))) })},
		"one that must not be there":            {route: spaceRoute(named("shop.globex.example.com")), events: 1, shown: 1, parents: []string{refused}},
		"one that becomes another's":            {route: spaceRoute(named("shop.globex.example.com")), before: withHost(accepted), events: 1, shown: 1, onHost: []string{"delete hr"}, parents: []string{refused}},
		"one that becomes its space's":          {route: spaceRoute(ofGateways("/own"), saying(ours, "infra/public", "True", "Accepted")), before: withHost(accepted), shown: 1, onHost: []string{"delete hr"}},
		"one that nobody can read":              {route: spaceRoute(func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["later"] = true }), events: 1, shown: 1, parents: []string{refused}},
		"one that loses its grant":              {may: &nothing, route: spaceRoute(saying(ours, "infra/public", "True", "Accepted")), before: withHost(accepted), events: 1, shown: 1, onHost: []string{"delete hr"}, parents: []string{refused}},
		"one that is gone":                      {before: func(w *world) { withHost(nil)(w); w.deleted.note("ru", false); w.orphans.limit = 0 }, onHost: []string{"delete hr"}},
		"one that nobody has seen go":           {before: withHost(nil), onHost: []string{"delete hr"}},
		"too many that nobody has":              {before: func(w *world) { withHost(nil)(w); w.orphans.limit = 0 }, fail: "of what no space has", host: "shop.acme.example.com"},
		"of which the cache is behind":          {before: definition(map[string]string{tenant.PublishedCopyLabel: tenant.PublishedCopy}), fail: "behind", host: "shop.acme.example.com"},
		"of which others say all there may be":  {route: full, before: withHost(accepted), shown: 1, host: "shop.acme.example.com", parents: others},
		"of a space with another definition":    {route: spaceRoute(), before: func(w *world) { takesOver(w); withHost(accepted)(w) }, host: "shop.acme.example.com"},
		"of a namespace that there was before":  {route: spaceRoute(ofBefore), before: withoutRoutes},
		"that tells of what there was before":   {route: spaceRoute(ofBefore, named("shop.globex.example.com")), before: withoutRoutes},
		"that was made anew since":              {route: spaceRoute(ofBefore), before: func(w *world) { madeAgain(w); w.routesInSpace.PrependReactor("get", "httproutes", another) }},
		"older than its namespace by its clock": {route: spaceRoute(ofBefore), before: madeAgain, onHost: []string{"create"}, host: "shop.acme.example.com"},
		"one that its space reads itself":       {before: definition(nil), onHost: []string{"delete hr"}},
		"somebody else's": {
			route: spaceRoute(), before: withHost(func(r *gatewayv1.HTTPRoute) { r.Annotations = map[string]string{names.UIDAnnotation: "ru"} }),
			fail: "not of this installation", host: "shop.acme.example.com",
		},
		"on a host without them": {
			route: spaceRoute(), before: func(w *world) { w.routes.onHost.state.Store(unserved) }, events: 1, shown: 1, parents: []string{refused},
		},
		"on a host of which nothing is known": {route: spaceRoute(), before: func(w *world) { w.routes.onHost.state.Store(unknown) }},
		"of spaces of which nothing is known": {before: func(w *world) { withHost(nil)(w); w.routes.inSpaces.state.Store(unknown) }, host: "shop.acme.example.com"},
		"of spaces that have them no more":    {before: func(w *world) { withHost(nil)(w); w.routes.inSpaces.state.Store(unserved) }, host: "shop.acme.example.com"},
		"of spaces that have neither them nor a grant": {
			may: &nothing, before: func(w *world) { withHost(nil)(w); w.routes.inSpaces.state.Store(unserved) }, onHost: []string{"delete hr"},
		},
		"of spaces that have neither them nor the name": {
			before: func(w *world) {
				withHost(func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = []gatewayv1.Hostname{"shop.globex.example.com"} })(w)
				w.routes.inSpaces.state.Store(unserved)
			}, onHost: []string{"delete hr"},
		},
		"one that the host refuses": {
			route: spaceRoute(), before: func(w *world) {
				w.routesOnHost.refuses = apierrors.NewInvalid(routesVersion.WithKind("HTTPRoute").GroupKind(), "web", field.ErrorList{field.Required(field.NewPath("spec", "x"), "")})
			}, events: 1, shown: 1, onHost: []string{"create"}, fail: "spec.x", parents: []string{refused},
		},
		"one that a webhook of the host refuses": {
			route: spaceRoute(), before: func(w *world) { w.routesOnHost.refuses = apierrors.NewBadRequest("as tn-globex-shop/web") },
			events: 1, shown: 1, onHost: []string{"create"}, fail: "tn-globex-shop", parents: []string{refused},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace())
			w.may(hasGateways)
			if tc.may != nil {
				w.may(*tc.may)
			}
			if tc.route != nil {
				if err := w.routesInSpace.Tracker().Add(tc.route.DeepCopy()); err != nil {
					t.Fatal(err)
				}
				w.see(tc.route)
			}
			if tc.before != nil {
				tc.before(w)
			}
			w.space.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
				e := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
				if e.InvolvedObject.Kind != "HTTPRoute" || strings.Contains(e.Message, "globex-shop") {
					t.Errorf("the tenant is told: %s", e.Message)
				}
				return false, nil, nil
			})
			err := w.syncRoute(t.Context(), theRoute)
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got error %v, want %q", err, tc.fail)
			}
			w.expect(times(tc.events, "create events"), nil)
			if diff := cmp.Diff(times(tc.shown, "patch httproutes/status"), did(w.routesInSpace)); diff != "" {
				t.Errorf("of routes of the space (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.onHost, w.routesOnHost.did); diff != "" {
				t.Errorf("of routes on the host (-want +got):\n%s", diff)
			}
			host := ""
			if got := w.routesOnHost.there["web"]; got != nil {
				host = fmt.Sprint(append(got.Spec.Hostnames, "")[0])
			}
			if host != tc.host {
				t.Errorf("on the host is %q, want %q", host, tc.host)
			}
			if diff := cmp.Diff(tc.parents, w.parents()); diff != "" && tc.route != nil {
				t.Errorf("the space is told (-want +got):\n%s", diff)
			}
		})
	}
}

// times returns what was done so many times.
func times(n int, what string) (all []string) {
	for range n {
		all = append(all, what)
	}
	return all
}

// TestRouteStatusesWait checks that what is said again and again in a space is written there seldom, and that what may
// not be on the host does not wait for it.
func TestRouteStatusesWait(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceRoute())
	w.may(hasGateways)
	onHostRoute(w, spaceRoute(), accepted)
	look := func(times int) int { // the cache never has what was written
		t.Helper()
		w.routesInSpace.ClearActions()
		for range times {
			if err := w.syncRoute(t.Context(), theRoute); err != nil {
				t.Fatal(err)
			}
		}
		return len(did(w.routesInSpace))
	}
	if n := look(moreAtOnce + 30); n != moreAtOnce {
		t.Errorf("%d statuses are written at once, want %d", n, moreAtOnce)
	}
	w.clock.Step(time.Second)
	if n := look(2); n < 1 {
		t.Error("nothing is written after a second")
	}
	look(moreAtOnce)
	w.may(v1alpha1.Workloads{})
	if n := look(1); n != 0 || !slices.Contains(w.routesOnHost.did, "delete hr") {
		t.Errorf("%d statuses are written, and on the host %v is done", n, w.routesOnHost.did)
	}
}

// TestManyRoutes checks that there are so many of a tenant on the host, that changes of them wait, and who comes when
// one goes.
func TestManyRoutes(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceRoute())
	w.may(hasGateways)
	for n := range routesAtOnce { // Ingresses have the same rate
		w.writeBudgets[routeBudget].wait(itemWrite{item{ingressItem, "acme", "acme|shop", fmt.Sprint(n)}, writeUpdate}, 1)
	}
	if err := w.syncRoute(t.Context(), theRoute); err != nil || len(w.routesOnHost.did) > 0 {
		t.Fatalf("did %v: %v", w.routesOnHost.did, err)
	}
	w.clock.Step(1e9)
	for n := range maxIngresses {
		onHostRoute(w, spaceRoute(func(u *unstructured.Unstructured) { u.SetName(fmt.Sprint(n)) }), nil)
	}
	if err := w.syncRoute(t.Context(), theRoute); err != nil || len(w.routesOnHost.did) > 0 {
		t.Fatalf("did %v: %v", w.routesOnHost.did, err)
	}
	w.expect([]string{"create events"}, nil)
	last := onHostRoute(w, spaceRoute(func(u *unstructured.Unstructured) { u.SetName("last") }), nil)
	for _, want := range []int{2, 1} { // nobody else was refused since
		w.andRoom(w.hostRouteChanged)(last, true)
		if all := w.taken(); len(all) != want {
			t.Errorf("when one goes, %v are looked at", all)
		}
	}
}

// TestOptional checks that a kind is followed from when it is served.
func TestOptional(t *testing.T) {
	served := &servedResources{}
	inSpace := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{routesResource: "HTTPRouteList"}, spaceRoute())
	r := &routes{spaces: inSpace}
	if err := r.setInformers(inSpace, &cache.ListWatch{}); err != nil {
		t.Fatal(err)
	}
	o := &r.inSpaces
	o.resource, o.discovery = routesResource, served
	for _, step := range []struct {
		err  error
		want bool
	}{{apierrors.NewNotFound(schema.GroupResource{}, ""), false}, {nil, false}} {
		served.err = step.err
		if got, err := o.isServed(); err != nil || got != step.want {
			t.Errorf("%v: %v, %v", step.err, got, err)
		}
	}
	served.err = apierrors.NewServiceUnavailable("busy")
	if _, err := o.isServed(); err == nil {
		t.Error("what cannot be asked is known")
	}
	served.err = nil
	ctx, cancel := context.WithCancel(t.Context())
	o.follow(ctx, func() { cancel() })
	if o.state.Load() != unserved {
		t.Errorf("what is not served is %d", o.state.Load())
	}
	served.names = []string{"httproutes"}
	known := false
	o.follow(t.Context(), func() { known = true })
	if o.state.Load() != followed || !known || len(o.informer.GetIndexer().ListKeys()) != 1 {
		t.Errorf("what is served is %d, with %v", o.state.Load(), o.informer.GetIndexer().ListKeys())
	}
}

// TestClientsOfRoutes checks that the informer of all spaces' routes has not the client of workers, whose time is
// short.
func TestClientsOfRoutes(t *testing.T) {
	asked := make(chan string, 100)
	config := func(whose string) *rest.Config {
		return &rest.Config{Host: "https://server", Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			asked <- whose
			return nil, errors.New("nobody is there")
		})}
	}
	r, err := newRoutes(config("reading"), config("writing"), config("host"), "i")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.in("acme|shop").Get(t.Context(), "web", metav1.GetOptions{}); err == nil || <-asked != "writing" {
		t.Errorf("a worker asks as somebody else: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.inSpaces.informer.RunWithContext(ctx)
	if whose := <-asked; whose != "reading" {
		t.Errorf("the informer asks as %q", whose)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// servedResources are what a group serves.
type servedResources struct {
	discovery.ServerResourcesInterface
	names []string
	err   error
}

// ServerResourcesForGroupVersion implements discovery.ServerResourcesInterface.
func (s *servedResources) ServerResourcesForGroupVersion(string) (*metav1.APIResourceList, error) {
	list := &metav1.APIResourceList{}
	for _, name := range s.names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, s.err
}

// TestOrphanedRoutes checks that HTTPRoutes count among what there is on the host.
func TestOrphanedRoutes(t *testing.T) {
	w := newWorld(t, hostSpace())
	onHostRoute(w, spaceRoute(func(u *unstructured.Unstructured) { u.SetUID(types.UID("x")) }), nil)
	if n := w.hostCaches.objects(); n != 1 {
		t.Errorf("there are %d objects", n)
	}
}
