package sync

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// noRoutesOnHost is why a route is not on a host that has none.
const noRoutesOnHost = "the host cluster has no HTTPRoutes (gateway.networking.k8s.io/v1): whoever administers it is to install the Gateway API"

// parentRefs are those of an HTTPRoute of a space that are about Gateways of the host.
type parentRefs struct{ granted, refused []gatewayv1.ParentReference }

// syncRoute makes the host's HTTPRoute for one of a space what that asks for, if it names a Gateway of the host that
// its Tenant is granted, and tells the space what the host says of it. What the Tenant may not have, or not any more,
// is not on the host.
func (s *syncer) syncRoute(ctx context.Context, i item) error {
	if !s.routes.areKnown() {
		return nil // all are looked at when they are
	}
	route, err := cached[unstructured.Unstructured](s.routes.inSpaces.informer, sourceKey(i.namespace, i.name))
	if err != nil {
		return err
	}
	if route, err = s.current(ctx, i, route); err != nil {
		return err
	}
	if route == nil {
		s.forgetRoute(i)
	}
	home, ready, err := s.readyHome(i.namespace)
	if err != nil || !ready {
		return err
	}
	there, err := s.hostCaches.route(home.Host(), i.name)
	if err != nil {
		return err
	}
	rules := s.rulesFor(i.tenant)
	if route == nil {
		return s.removeRoute(ctx, i, home, rules, there)
	}
	if !rules.HasRoutes() && there == nil || there == nil && route.GetDeletionTimestamp() != nil {
		return nil
	}
	refs, err := s.parentRefsOf(i, rules, route)
	if err != nil {
		return err
	}
	why, err := s.whyRouteNotOnHost(i, rules, refs, route, there)
	if err != nil {
		return err
	}
	if why != "" || len(refs.granted) == 0 {
		return s.withdrawRoute(ctx, i, home, rules, refs, route, there, why)
	}
	return s.placeRoute(ctx, i, home, rules, refs, route, there)
}

// current returns an HTTPRoute of the cache, nil if its space has it no more. The cache stays as it was when the
// platform no longer publishes the definition, or a space has its own: a route that is older than its namespace may be
// that of another tenant which had both names.
func (s *syncer) current(ctx context.Context, i item, route *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	namespace, err := orNil(s.namespaces.Get(i.namespace.String()))
	if err != nil || route == nil || namespace == nil || !route.GetCreationTimestamp().Time.Before(namespace.CreationTimestamp.Time) {
		return route, err
	}
	live, err := orNil(s.routes.in(i.namespace).Get(ctx, i.name, metav1.GetOptions{})) // clocks of servers differ, too
	if err != nil {
		return nil, fmt.Errorf("looking whether an HTTPRoute is that of its namespace: %w", err)
	}
	if live == nil || live.GetUID() != route.GetUID() {
		return nil, nil
	}
	return route, nil
}

// parentRefsOf returns which Gateways of the host an HTTPRoute names. One that is not granted may be of the space, if
// that has its namespace, and is somebody else's there.
func (s *syncer) parentRefsOf(i item, rules translate.Rules, route *unstructured.Unstructured) (refs parentRefs, err error) {
	for _, ref := range translate.ParentsOf(route) {
		if rules.HasRoutes() && rules.Grants(&ref) {
			refs.granted = append(refs.granted, ref)
			continue
		}
		own, err := orNil(s.namespaces.Get(tenant.Flatten(i.tenant, string(*ref.Namespace)).String()))
		if err != nil {
			return refs, fmt.Errorf("looking whether a space has the namespace of a Gateway: %w", err)
		}
		if own == nil {
			refs.refused = append(refs.refused, ref)
		}
	}
	return refs, nil
}

// whyRouteNotOnHost returns why an HTTPRoute is not on the host, or must not be there any more. It is empty if it may
// be there, and if it is not to be there.
func (s *syncer) whyRouteNotOnHost(i item, rules translate.Rules, refs parentRefs, route *unstructured.Unstructured, there *gatewayv1.HTTPRoute) (string, error) {
	switch {
	case !rules.HasRoutes():
		return "the Tenant has no Gateways, or no host names, any more: ask the platform's administrators for workloads.gateways and workloads.hostNames of the Tenant", nil
	case len(refs.granted) == 0 && len(refs.refused) > 0:
		return rules.NotGranted(&refs.refused[0]), nil
	case len(refs.granted) == 0:
		return "", nil
	case s.routes.onHost.state.Load() == unserved:
		return noRoutesOnHost, nil
	}
	if there == nil {
		if has, err := s.hasRoomOf(routeItem, i.tenant, s.routes.onHost.informer); err != nil {
			return "", err
		} else if !has { // before anybody reads what may be much
			return fmt.Sprintf("a tenant has at most %d HTTPRoutes on the host cluster: delete others, or have more rules in each", maxIngresses), nil
		}
	}
	return s.checked.why(i, route, rules, func() error {
		read, err := translate.RouteOf(route)
		if err != nil {
			return err
		}
		return rules.CheckRoute(read).ToAggregate()
	}), nil
}

// placeRoute makes the host's HTTPRoute what the space's is, and the status of the space's what the host says.
func (s *syncer) placeRoute(ctx context.Context, i item, home names.Namespace, rules translate.Rules, refs parentRefs, route *unstructured.Unstructured, there *gatewayv1.HTTPRoute) error {
	read, err := translate.RouteOf(route)
	if err != nil {
		return err
	}
	wanted := rules.Route(read, home)
	if there != nil && isSame(there, wanted) && isAsPut(there, wanted, slimRoute) {
		s.writeBudgets[routeBudget].drop(i)
		return s.showRoute(ctx, route, s.saidOf(rules, refs, route, there))
	}
	if s.postpone(routeBudget, i, 1) {
		return nil
	}
	err = put(ctx, s.routes.host(home.Host()), "HTTPRoute", there, wanted, slimRoute)
	if why := messageOfRefusal(err, home); why != "" {
		err = errors.Join(err, s.recordRefusal(ctx, route, why), s.showRoute(ctx, route, s.refusals(route, refs, rules, why)))
	}
	return err
}

// withdrawRoute takes an HTTPRoute that a space still has from the host, and says why.
func (s *syncer) withdrawRoute(ctx context.Context, i item, home names.Namespace, rules translate.Rules, refs parentRefs, route *unstructured.Unstructured, there *gatewayv1.HTTPRoute, why string) error {
	s.writeBudgets[routeBudget].drop(i)
	var told error
	if why != "" {
		told = s.recordRefusal(ctx, route, why)
	}
	return errors.Join(told, s.showRoute(ctx, route, s.refusals(route, refs, rules, why)),
		remove(ctx, s.routes.host(home.Host()), "HTTPRoute", there, home, i.name))
}

// removeRoute deletes an HTTPRoute of the host whose own is gone, once the space says so, too, or which the space reads
// by a definition of its own. While no space shows any, what there is stays, but for what its tenant may not have any
// more: spaces show them again when the definition is published again.
func (s *syncer) removeRoute(ctx context.Context, i item, home names.Namespace, rules translate.Rules, there *gatewayv1.HTTPRoute) error {
	if there == nil {
		return nil
	}
	if s.routes.inSpaces.state.Load() == unserved {
		whole, err := orNil(s.routes.host(home.Host()).Get(ctx, i.name, metav1.GetOptions{})) // of which the cache has no spec
		if err != nil || whole == nil || rules.Covers(whole) {
			return err
		}
		return remove(ctx, s.routes.host(home.Host()), "HTTPRoute", there, home, i.name)
	}
	own, err := s.definesRoutes(ctx, i.tenant)
	if err == nil && !own {
		err = mayRemove(ctx, s, s.routes.in(i.namespace), "HTTPRoute", i, uidOf(there))
	}
	if err != nil {
		return err
	}
	return remove(ctx, s.routes.host(home.Host()), "HTTPRoute", there, home, i.name)
}

// saidOf returns what a space is told of an HTTPRoute that is on the host.
func (s *syncer) saidOf(rules translate.Rules, refs parentRefs, route *unstructured.Unstructured, there *gatewayv1.HTTPRoute) []gatewayv1.RouteParentStatus {
	all := s.refusals(route, parentRefs{refused: refs.refused}, rules, "")
	_, said := parentsOf(route)
	for _, ref := range refs.granted {
		told, ok := translate.RouteStatus(there, ref, route.GetGeneration())
		if was, before := said[keyOf(&ref)]; ok && before && len(told.Conditions) == 0 {
			told = was // what is said of the route as it is now is still to come
		}
		if len(told.Conditions) > 0 {
			all = append(all, told)
		}
	}
	return all
}

// refusals returns what a space is told of an HTTPRoute that is not on the host: why, and of Gateways that are not
// granted that.
func (s *syncer) refusals(route *unstructured.Unstructured, refs parentRefs, rules translate.Rules, why string) (all []gatewayv1.RouteParentStatus) {
	refuse := func(ref gatewayv1.ParentReference, why string) {
		all = append(all, gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: translate.RouteController, Conditions: []metav1.Condition{{
			Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionFalse, Reason: reasonRefused, Message: shortened(why),
			ObservedGeneration: route.GetGeneration(), LastTransitionTime: metav1.NewTime(s.clock.Now()),
		}}})
	}
	for _, ref := range refs.granted {
		refuse(ref, why)
	}
	for _, ref := range refs.refused {
		refuse(ref, rules.NotGranted(&ref))
	}
	return all
}

// showRoute makes what the syncer says in the status of an HTTPRoute what it is to say. What others say there stays,
// and comes first if it is too much for both.
func (s *syncer) showRoute(ctx context.Context, route *unstructured.Unstructured, ours []gatewayv1.RouteParentStatus) error {
	parents, said := parentsOf(route)
	for _, one := range ours[:max(0, min(len(ours), translate.MaxParents-len(parents)))] {
		was := said[keyOf(&one.ParentRef)]
		for j := range one.Conditions { // it is since then, if it was so before
			c := &one.Conditions[j]
			if b := meta.FindStatusCondition(was.Conditions, c.Type); b != nil && b.Status == c.Status {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&one)
		if err != nil {
			return fmt.Errorf("writing what the host says of an HTTPRoute: %w", err)
		}
		parents = append(parents, content)
	}
	before, _, _ := unstructured.NestedFieldNoCopy(route.Object, "status", "parents")
	i := itemOf(routeItem, route)
	if list, _ := before.([]any); len(list) == len(parents) && (len(list) == 0 || reflect.DeepEqual(list, parents)) {
		s.writeBudgets[statusBudget].drop(i)
		return nil
	}
	if s.postpone(statusBudget, i, 1) {
		return nil
	}
	return s.patchParents(ctx, route, parents)
}

// parentsOf returns what others say in the status of an HTTPRoute, and what the syncer does, by keyOf.
func parentsOf(route *unstructured.Unstructured) (others []any, said map[string]gatewayv1.RouteParentStatus) {
	found, _, _ := unstructured.NestedFieldNoCopy(route.Object, "status", "parents")
	all, _ := found.([]any)
	others, said = []any{}, map[string]gatewayv1.RouteParentStatus{}
	for _, one := range all {
		content, _ := one.(map[string]any)
		if content["controllerName"] != string(translate.RouteController) {
			others = append(others, one)
			continue
		}
		var was gatewayv1.RouteParentStatus
		if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &was) == nil {
			said[keyOf(&was.ParentRef)] = was
		}
	}
	return others, said
}

// keyOf returns what tells the parentRefs of a route apart.
func keyOf(ref *gatewayv1.ParentReference) string {
	return fmt.Sprint(translate.GatewayOf(ref), "/", ptr.Deref(ref.SectionName, ""), "/", ptr.Deref(ref.Port, 0))
}

// patchParents writes the list of parents, if nobody else has changed the route since it was read. A space that has its
// own definition by now is told nothing: the route would be written by that one, and be none of the published
// definition any more.
func (s *syncer) patchParents(ctx context.Context, route *unstructured.Unstructured, parents []any) error {
	if own, err := s.definesRoutes(ctx, tenant.Flat(route.GetNamespace()).Space()); err != nil || own {
		return err
	}
	change := map[string]any{
		"metadata": map[string]any{"resourceVersion": route.GetResourceVersion()}, "status": map[string]any{"parents": parents},
	}
	client := s.routes.in(tenant.Flat(route.GetNamespace()))
	if _, err := patchOne(ctx, client, route.GetName(), route.GetUID(), change, "status"); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing what the host says of an HTTPRoute: %w", err)
	}
	return nil
}

func (s *syncer) routeChanged(obj any) { s.enqueueIfOnHost(routeItem, obj) }

func (s *syncer) routeGone(obj any, seen bool) {
	s.forgetRoute(itemOf(routeItem, obj.(*unstructured.Unstructured)))
	s.enqueueGone(routeItem, obj, seen)
}

// forgetRoute forgets what is known of an HTTPRoute of a space that is gone.
func (s *syncer) forgetRoute(i item) {
	s.checked.Delete(i)
	s.writeBudgets.drop(i)
}

func (s *syncer) hostRouteChanged(obj any) { s.enqueueSource(routeItem, obj) }

// enqueueRoutes has all HTTPRoutes of a namespace of a space looked at.
func (s *syncer) enqueueRoutes(of tenant.Flat) {
	s.enqueueIn(routeItem, s.routes.inSpaces.informer.GetIndexer(), of)
}
