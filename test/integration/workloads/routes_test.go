package workloads

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
	"github.com/tenantry/tenantry/test/env/suite"
)

var routesResource = schema.GroupVersion(gatewayv1.GroupVersion).WithResource("httproutes")

// publishRoutes gives the host the Gateway API's own definition of HTTPRoutes, and all spaces, too: the host is their
// system space.
func publishRoutes(ctx context.Context) {
	GinkgoHelper()
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	Expect(err).NotTo(HaveOccurred())
	written, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"))
	Expect(err).NotTo(HaveOccurred())
	definition := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(written, &definition.Object)).To(Succeed())
	annotations := definition.GetAnnotations()
	annotations[tenant.PublishedAnnotation] = "true"
	definition.SetAnnotations(annotations)
	create(ctx, definition)
}

// routesOf is a client of the HTTPRoutes of a tenant's namespace default.
func routesOf(n tenant.Name) dynamic.ResourceInterface {
	return suite.Dynamic(tenantry.Config(n)).Resource(routesResource).Namespace("default")
}

// plainRoute leads from a host name of a Gateway to a Service.
func plainRoute(name, gateway, hostName string) *unstructured.Unstructured {
	namespace, gateway, _ := strings.Cut(gateway, "/")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"namespace": namespace, "name": gateway}},
			"hostnames":  []any{hostName},
			"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"name": name, "port": int64(80)}}}},
		},
	}}
}

// hostRoutes returns the host's HTTPRoutes of a name, by their tenants.
func hostRoutes(ctx context.Context, name string) map[string]*gatewayv1.HTTPRoute {
	GinkgoHelper()
	list, err := suite.Dynamic(tenantry.Config(tenant.System)).Resource(routesResource).List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]*gatewayv1.HTTPRoute{}
	for i := range list.Items {
		route := &gatewayv1.HTTPRoute{}
		Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, route)).To(Succeed())
		if route.Name == name {
			found[route.Annotations[names.TenantAnnotation]] = route
		}
	}
	return found
}

// accepts says what a Gateway of the host would.
func accepts(ctx context.Context, there *gatewayv1.HTTPRoute) {
	GinkgoHelper()
	there.Status.Parents = []gatewayv1.RouteParentStatus{{
		ParentRef: there.Spec.ParentRefs[0], ControllerName: "example.com/controller",
		Conditions: []metav1.Condition{{
			Type: "Accepted", Status: metav1.ConditionTrue, Reason: "Accepted", Message: "beside tn-other/web", LastTransitionTime: metav1.Now(), ObservedGeneration: there.Generation,
		}},
	}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(there)
	Expect(err).NotTo(HaveOccurred())
	_, err = suite.Dynamic(tenantry.Config(tenant.System)).Resource(routesResource).Namespace(there.Namespace).UpdateStatus(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// acceptance returns what an HTTPRoute of a space says of its first parent.
func acceptance(ctx context.Context, n tenant.Name, name string) (controller gatewayv1.GatewayController, c metav1.Condition) {
	GinkgoHelper()
	got, err := routesOf(n).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	route := &gatewayv1.HTTPRoute{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, route)).To(Succeed())
	if len(route.Status.Parents) == 0 {
		return "", c
	}
	said := route.Status.Parents[0]
	if found := meta.FindStatusCondition(said.Conditions, "Accepted"); found != nil {
		c = *found
	}
	return said.ControllerName, c
}

// withGateway returns a tenant that may have host names of a Gateway, with a Service.
func withGateway(ctx context.Context, name string) tenant.Name {
	GinkgoHelper()
	n := tenantry.NewTenant(ctx, name)
	Expect(tenantry.SetSpec(ctx, n, "workloads", `{"hostNames":["*.`+n.String()+`.example.com"],"gateways":["infra/public"]}`)).To(Succeed())
	_, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, plainService("web"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return n
}

var _ = Describe("HTTPRoutes of spaces", func() {
	It("are on the host within what their Tenant grants, and say what their Gateway does", func(ctx SpecContext) {
		one, two := withGateway(ctx, "way"), withGateway(ctx, "way")
		for _, n := range []tenant.Name{one, two} {
			_, err := routesOf(n).Create(ctx, plainRoute("web", "infra/public", "shop."+n.String()+".example.com"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() *gatewayv1.HTTPRoute { return hostRoutes(ctx, "web")[n.String()] }).ShouldNot(BeNil())
			there := hostRoutes(ctx, "web")[n.String()]
			Expect(there.Spec.Hostnames).To(Equal([]gatewayv1.Hostname{gatewayv1.Hostname("shop." + n.String() + ".example.com")}))
			Expect(there.Spec.ParentRefs).To(HaveLen(1))
			accepts(ctx, there)
			Eventually(func(g Gomega) {
				controller, accepted := acceptance(ctx, n, "web")
				g.Expect(controller).To(Equal(translate.RouteController))
				g.Expect(accepted.Status).To(Equal(metav1.ConditionTrue))
				g.Expect(accepted.Message).To(BeEmpty())
			}).Should(Succeed())
		}
		_, err := routesOf(one).Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"hostnames":["shop.`+two.String()+`.example.com"]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() *gatewayv1.HTTPRoute { return hostRoutes(ctx, "web")[one.String()] }).Should(BeNil())
		Eventually(func() string { _, c := acceptance(ctx, one, "web"); return c.Message }).Should(ContainSubstring("workloads.hostNames of the Tenant"))
		Expect(routesOf(two).Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() map[string]*gatewayv1.HTTPRoute { return hostRoutes(ctx, "web") }).Should(BeEmpty())
	})

	It("for Gateways that are not granted are in their space alone, and say why", func(ctx SpecContext) {
		n := withGateway(ctx, "ungranted")
		for name, gateway := range map[string]string{"other": "infra/other", "own": "default/public"} {
			_, err := routesOf(n).Create(ctx, plainRoute(name, gateway, "shop."+n.String()+".example.com"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(func() string { _, c := acceptance(ctx, n, "other"); return c.Message }).Should(ContainSubstring(`ask the platform's administrators for "infra/other" in workloads.gateways of the Tenant`))
		Eventually(func(g Gomega) {
			events, err := tenantry.Client(n).CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=HTTPRoute,reason=RefusedByHost"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(HaveLen(1))
		}).Should(Succeed())
		Expect(hostRoutes(ctx, "other")).To(BeEmpty())
		Expect(hostRoutes(ctx, "own")).To(BeEmpty())
		controller, _ := acceptance(ctx, n, "own")
		Expect(controller).To(BeEmpty(), "it is for a Gateway of its space")
	})

	It("leave the host when their Tenant has not their Gateway any more, or a definition of its own", func(ctx SpecContext) {
		n := withGateway(ctx, "withdrawn")
		there := func() bool { return hostRoutes(ctx, "web")[n.String()] != nil }
		_, err := routesOf(n).Create(ctx, plainRoute("web", "infra/public", "shop."+n.String()+".example.com"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(there).Should(BeTrue())
		granted := `{"hostNames":["*.` + n.String() + `.example.com"],"gateways":["infra/public"]}`
		for _, spec := range []string{strings.ReplaceAll(granted, "public", "other"), `null`} {
			Expect(tenantry.SetSpec(ctx, n, "workloads", spec)).To(Succeed())
			Eventually(there).Should(BeFalse())
		}
		Expect(tenantry.SetSpec(ctx, n, "workloads", granted)).To(Succeed())
		Eventually(there).Should(BeTrue())
		definitions := suite.Definitions(tenantry.Config(n))
		published, err := definitions.Get(ctx, "httproutes.gateway.networking.k8s.io", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		published.Annotations[tenant.OwnDefinitionAnnotation] = "true"
		_, err = definitions.Update(ctx, published, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		writes := 0
		Eventually(func() bool { // it stays as it was until it is written by that definition
			writes++
			_, _ = routesOf(n).Patch(ctx, "web", types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"labels":{"writes":"%d"}}}`, writes)), metav1.PatchOptions{})
			return there()
		}).Should(BeFalse())
	})

	It("are made by an identity that can make none that take everything", func(ctx SpecContext) {
		n := withGateway(ctx, "thief")
		namespace := hostServices(ctx, "web")[n.String()].Namespace
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Dynamic(config).Resource(routesResource)
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		rule := func(change func(rule, backend map[string]any)) func(map[string]any) {
			return func(spec map[string]any) {
				r := spec["rules"].([]any)[0].(map[string]any)
				change(r, r["backendRefs"].([]any)[0].(map[string]any))
			}
		}
		for what, change := range map[string]func(spec map[string]any){
			"host names":         func(spec map[string]any) { delete(spec, "hostnames") },
			"no star":            func(spec map[string]any) { spec["hostnames"] = []any{"*.example.com"} },
			"a Gateway":          func(spec map[string]any) { delete(spec, "parentRefs") },
			"no Gateway of ours": func(spec map[string]any) { spec["parentRefs"] = []any{map[string]any{"name": "g"}} },
			"no other parent": func(spec map[string]any) {
				spec["parentRefs"] = []any{map[string]any{"namespace": "infra", "name": "public", "kind": "Service", "group": ""}}
			},
			"none of another group": func(spec map[string]any) {
				spec["parentRefs"] = []any{map[string]any{"namespace": "infra", "name": "public", "group": "example.com"}}
			},
			"a Service of the core": rule(func(_, backend map[string]any) { backend["group"] = "serving.knative.dev" }),
			"a Service":             rule(func(_, backend map[string]any) { backend["kind"], backend["group"] = "Backend", "example.com" }),
			"of its namespace":      rule(func(_, backend map[string]any) { backend["namespace"] = "kube-system" }),
			"no filter of it": rule(func(_, backend map[string]any) {
				backend["filters"] = []any{map[string]any{"type": "RequestMirror", "requestMirror": map[string]any{"backendRef": map[string]any{"name": "a", "port": int64(80)}}}}
			}),
			"no filter but some": rule(func(r, _ map[string]any) {
				r["filters"] = []any{map[string]any{"type": "ExtensionRef", "extensionRef": map[string]any{"group": "g", "kind": "k", "name": "n"}}}
			}),
		} {
			route := plainRoute("stolen", "infra/public", "a.example.com")
			change(route.Object["spec"].(map[string]any))
			_, err := stolen.Namespace(namespace).Create(ctx, route, dryRun)
			Expect(err).To(MatchError(ContainSubstring("routes of spaces are HTTPRoutes for Gateways of other namespaces")), what)
		}
		fine := plainRoute("fine", "infra/public", "a.example.com")
		_, err := stolen.Namespace(namespace).Create(ctx, fine, dryRun)
		Expect(err).NotTo(HaveOccurred())
		_, err = stolen.Namespace("default").Create(ctx, fine, dryRun)
		Expect(err).To(Satisfy(apierrors.IsForbidden))
	})
})
