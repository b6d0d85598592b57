package search

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// letIn lets a user of another tenant list Secrets in a namespace, and returns what takes that back.
func letIn(ctx context.Context, n, of tenant.Name, user, namespace string) (back func()) {
	GinkgoHelper()
	client := suite.Dynamic(tenantry.Config(n)).Resource(policies)
	policy := newObject(policies, "TenantAccessPolicy", "", "guests", map[string]any{"spec": map[string]any{
		"subjects": []any{map[string]any{"tenant": of.String(), "kind": "User", "name": user}},
		"rules":    []any{map[string]any{"verbs": []any{"list"}, "apiGroups": []any{""}, "resources": []any{"secrets"}, "namespaces": []any{namespace}}},
	}})
	_, err := client.Create(ctx, policy, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	back = func() {
		GinkgoHelper()
		if err := client.Delete(ctx, "guests", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	}
	DeferCleanup(func(ctx SpecContext) { _ = client.Delete(ctx, "guests", metav1.DeleteOptions{}) })
	return back
}

// placesOf returns SPACE/NAME of what is found.
func placesOf(ctx context.Context, config *rest.Config, query string) []string {
	GinkgoHelper()
	answer, err := try(ctx, config, query, "")
	Expect(err).NotTo(HaveOccurred())
	return placesIn(answer)
}

func placesIn(answer *search.Answer) []string {
	places := []string{}
	for _, item := range answer.Items {
		places = append(places, item.Space+"/"+item.Name)
	}
	return places
}

// ofSpec leaves out what other specs have not made.
const ofSpec = "kind:secret label:app=web "

var _ = Describe("a search of several spaces", func() {
	var namespaces map[tenant.Name]string
	BeforeEach(func(ctx SpecContext) {
		namespaces = map[tenant.Name]string{}
		for _, n := range []tenant.Name{acme, globex, initech} {
			namespaces[n] = namespaceIn(ctx, n, "several")
			created := secretIn(ctx, n, namespaces[n], "of-"+n.String())
			Expect(find(ctx, tenantry.Config(n), "kind:secret name:of-* namespace:"+namespaces[n], created.ResourceVersion)).To(HaveLen(1))
		}
	})
	// in is a query of what the spec has made, in some spaces.
	in := func(spaces string) string {
		return ofSpec + "namespace:" + strings.Join(slices.Collect(maps.Values(namespaces)), ",") + " space:" + spaces
	}

	// inputOf is that in GraphQL.
	inputOf := func(spaces ...string) map[string]any {
		filter := func(property string, values ...string) map[string]any {
			return map[string]any{"property": property, "values": values}
		}
		return map[string]any{"filters": []any{filter("kind", "secret"), filter("label", "app=web"), filter("namespace", slices.Collect(maps.Values(namespaces))...), filter("space", spaces...)}}
	}

	It("finds in each what an administrator of the system finds there", func(ctx SpecContext) {
		admin := tenantry.Config(tenant.System)
		Expect(placesOf(ctx, admin, in("acme,globex"))).To(Equal([]string{"acme/of-acme", "globex/of-globex"}))
		Expect(placesOf(ctx, tenantry.In(globex, admin), in("initech,acme"))).To(Equal([]string{"acme/of-acme", "initech/of-initech"}), "from the root of another space")
		Expect(placesOf(ctx, admin, in("acme,globex")+" space:!acme")).To(Equal([]string{"globex/of-globex"}))
		Expect(placesOf(ctx, admin, in("acme,gl*"))).To(Equal([]string{"acme/of-acme"}), "a wildcard names no space")
		Expect(placesOf(ctx, admin, in("acme")+" space:globex")).To(BeEmpty())
		Expect(placesOf(ctx, admin, in("acme,globex,initech")+" globex")).To(Equal([]string{"globex/of-globex"}), "the name of a space is in all of its objects")
		answer, err := try(ctx, admin, "kind:clusterrole name:view space:acme,globex,system", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(placesIn(answer)).To(Equal([]string{"acme/view", "globex/view", "system/view"}), "what spaces show without storing it")
	})

	It("has pages, orders, completion and related objects", func(ctx SpecContext) {
		admin := tenantry.Config(tenant.System)
		for order, want := range map[string][]string{
			"": {"acme", "globex", "initech"}, "name+desc": {"initech", "globex", "acme"}, "space+desc": {"initech", "globex", "acme"}, "kind": {"acme", "globex", "initech"},
		} {
			var found []string
			for token := ""; ; {
				status, body := get(ctx, admin, "/search?limit=1&orderBy="+order+"&q="+strings.ReplaceAll(in("acme,globex,initech"), " ", "+")+"&continue="+token)
				Expect(status).To(Equal(http.StatusOK), body)
				var page search.Answer
				Expect(json.Unmarshal([]byte(body), &page)).To(Succeed())
				Expect(page.Count).To(BeEquivalentTo(3))
				for _, item := range page.Items {
					found = append(found, item.Space)
				}
				if token = page.Continue; token == "" {
					break
				}
			}
			Expect(found).To(Equal(want), order)
		}
		var data struct {
			Search []struct {
				Count   int
				Items   []map[string]any
				Related []struct {
					Kind  string
					Items []map[string]any
				}
			}
			Spaces, Names []string
		}
		Expect(post(ctx, admin, `query q($both: SearchInput, $one: SearchInput) {
			search(input: [$both, $one]) { count items related { kind items } }
			spaces: searchComplete(property: "space", query: $both)
			names: searchComplete(property: "name", query: $both)
		}`, map[string]any{
			"both": inputOf("acme", "globex"), "one": inputOf("initech"),
		}, &data)).To(Succeed())
		Expect(data.Search[0].Count).To(Equal(2))
		Expect(data.Search[1].Items).To(HaveLen(1))
		Expect(data.Search[1].Items[0]).To(HaveKeyWithValue("space", "initech"))
		Expect(data.Spaces).To(Equal([]string{"acme", "globex"}))
		Expect(data.Names).To(Equal([]string{"of-acme", "of-globex"}))
	})

	It("passes what a request to each of them would", func(ctx SpecContext) {
		admin, system, guest := tenantry.Config(tenant.System), tenantry.User(tenant.System, jane), tenantry.User(acme, jane)
		refusal := func(config *rest.Config, spaces string) (int, string) {
			status, body := get(ctx, config, "/search?q=space:"+spaces)
			return status, body
		}
		for what, tc := range map[string]struct {
			config *rest.Config
			spaces string
			status int
		}{
			"an administrator, where there is no space": {admin, "acme,nowhere", http.StatusNotFound},
			"no name of a space":                        {admin, "acme,all", http.StatusBadRequest},
			"a name that is none":                       {admin, "acme,Nowhere", http.StatusBadRequest},
			"a user of the system without a right":      {system, "acme,globex", http.StatusForbidden},
			"a user of another tenant":                  {guest, "acme,globex", http.StatusForbidden},
			"a user of another tenant, nowhere":         {guest, "acme,nowhere", http.StatusForbidden},
			"a user of another tenant, in the system":   {guest, "acme,system", http.StatusForbidden},
			"nobody": {rest.AnonymousClientConfig(admin), "acme,globex", http.StatusUnauthorized},
		} {
			status, body := refusal(tc.config, tc.spaces)
			Expect(status).To(Equal(tc.status), "%s: %s", what, body)
		}
		_, foreign := refusal(guest, "globex")
		_, nowhere := refusal(guest, "nowhere")
		Expect(nowhere).To(Equal(strings.ReplaceAll(foreign, "globex", "nowhere")), "it tells which tenants there are")
		var many []string
		for i := range 51 {
			many = append(many, fmt.Sprint("t", i))
		}
		status, body := refusal(admin, strings.Join(many[:26], ",")+"+space:"+strings.Join(many[26:], ","))
		Expect(status).To(Equal(http.StatusOK), "%s: none of them is in both", body)
		var data map[string]any
		Expect(post(ctx, admin, `query q($a: SearchInput, $b: SearchInput) { search(input: [$a, $b]) { count } }`,
			map[string]any{"a": inputOf(many[:26]...), "b": inputOf(many[26:]...)}, &data)).To(Satisfy(apierrors.IsBadRequest))
		Expect(post(ctx, guest, `query q($a: SearchInput) { search(input: [$a]) { count } }`, map[string]any{"a": inputOf("acme", "globex")}, &data)).
			To(Satisfy(apierrors.IsForbidden))
	})

	It("shows guests what the policies of each space let them list, until they do not", func(ctx SpecContext) {
		guest := tenantry.User(acme, jane)
		let(ctx, acme, namespaces[acme], jane, listSecrets)
		back := letIn(ctx, globex, acme, jane, namespaces[globex])
		Eventually(func() error {
			_, err := try(ctx, guest, in("acme,globex"), "")
			return err
		}).Should(Succeed())
		Expect(placesOf(ctx, guest, in("acme,globex"))).To(Equal([]string{"acme/of-acme", "globex/of-globex"}))
		Expect(placesOf(ctx, guest, in("globex"))).To(Equal([]string{"globex/of-globex"}))
		var data struct{ Search []struct{ Count int } }
		Expect(post(ctx, guest, `query q($a: SearchInput) { search(input: [$a]) { count } }`, map[string]any{"a": inputOf("acme", "globex")}, &data)).To(Succeed())
		Expect(data.Search[0].Count).To(Equal(2))

		Expect(tenantry.SetSpec(ctx, globex, "suspended", "true")).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(tenantry.SetSpec(ctx, globex, "suspended", "false")).To(Succeed()) })
		status, body := get(ctx, guest, "/search?q=space:acme,globex")
		Expect(status).To(Equal(http.StatusForbidden), body)
		Expect(placesOf(ctx, tenantry.Config(tenant.System), in("acme,globex"))).To(HaveLen(2), "the platform is let into a suspended one")
		Expect(placesOf(ctx, guest, in("acme"))).To(HaveLen(1), "the own space is as it was")
		Expect(tenantry.SetSpec(ctx, globex, "suspended", "false")).To(Succeed())
		Eventually(func() error {
			_, err := try(ctx, guest, in("acme,globex"), "")
			return err
		}).Should(Succeed())
		back()
		status, body = get(ctx, guest, "/search?q=space:acme,globex")
		Expect(status).To(Equal(http.StatusForbidden), body)
	})

	It("follows a tenant that is deleted, and knows no later one of the name as it", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "ending")
		admin := tenantry.Config(tenant.System)
		query := "kind:namespace name:default space:acme," + n.String()
		Expect(placesOf(ctx, admin, query)).To(Equal([]string{"acme/default", n.String() + "/default"}))
		tenantry.DeleteTenant(ctx, n)
		ask := func() int {
			status, _ := get(ctx, admin, "/search?q="+strings.ReplaceAll(query, " ", "+"))
			return status
		}
		Expect(ask()).To(BeElementOf(http.StatusNotFound, http.StatusForbidden)) // the server may still know it, and the rights do not
		Eventually(ask).Should(Equal(http.StatusNotFound))
	}, NodeTimeout(2*time.Minute))

	It("never shows what a policy or a role has been taken away from, under load", func(ctx SpecContext) {
		user := tenantry.User(acme, jane)
		done := make(chan struct{})
		end := sync.OnceFunc(func() { close(done) })
		defer end()
		var mu sync.Mutex
		seen, forbidden := 0, map[string]bool{}
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				defer GinkgoRecover()
				for {
					answer, err := try(ctx, user, "kind:secret space:acme,globex", "")
					if err == nil {
						mu.Lock()
						seen += len(answer.Items)
						shown := slices.DeleteFunc(placesIn(answer), func(place string) bool { return !forbidden[place] })
						mu.Unlock()
						Expect(shown).To(BeEmpty())
					} else if !apierrors.IsServiceUnavailable(err) {
						Expect(err).To(Satisfy(apierrors.IsForbidden))
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for i := range 15 {
			after := fmt.Sprint("after-", i)
			mu.Lock()
			forbidden["acme/"+after], forbidden["globex/"+after] = true, true
			mu.Unlock()
			binding := let(ctx, acme, namespaces[acme], jane, listSecrets)
			back := letIn(ctx, globex, acme, jane, namespaces[globex])
			Eventually(func() []string {
				answer, err := try(ctx, user, in("acme,globex"), "")
				if err != nil {
					return nil
				}
				return placesIn(answer)
			}).Should(Equal([]string{"acme/of-acme", "globex/of-globex"}))
			if i%2 == 0 { // the right in one of the spaces goes first
				Expect(tenantry.Client(acme).RbacV1().RoleBindings(namespaces[acme]).Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
				secretIn(ctx, acme, namespaces[acme], after)
				Expect(placesOf(ctx, user, in("acme,globex"))).To(Equal([]string{"globex/of-globex"}))
				Expect(tenantry.Client(acme).CoreV1().Secrets(namespaces[acme]).Delete(ctx, after, metav1.DeleteOptions{})).To(Succeed())
				back()
			} else {
				back()
				secretIn(ctx, globex, namespaces[globex], after)
				status, body := get(ctx, user, "/search?q=space:acme,globex")
				Expect(status).To(Equal(http.StatusForbidden), body)
				Expect(tenantry.Client(globex).CoreV1().Secrets(namespaces[globex]).Delete(ctx, after, metav1.DeleteOptions{})).To(Succeed())
				Expect(tenantry.Client(acme).RbacV1().RoleBindings(namespaces[acme]).Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
			}
		}
		end()
		asking.Wait()
		Expect(seen).To(BeNumerically(">", 0), "nothing was ever found")
	}, NodeTimeout(5*time.Minute))

	It("lets users of the system search where a role says so", func(ctx SpecContext) {
		client := tenantry.Client(tenant.System).RbacV1()
		meta := metav1.ObjectMeta{Name: "several", Annotations: map[string]string{tenant.ScopeAnnotation: "Tenants"}}
		_, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{NonResourceURLs: []string{search.Path}, Verbs: []string{"get"}}, listSecrets,
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { _ = client.ClusterRoles().Delete(ctx, meta.Name, metav1.DeleteOptions{}) })
		_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "auditor"}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { _ = client.ClusterRoleBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}) })
		auditor := tenantry.User(tenant.System, "auditor")
		Eventually(func() []string {
			answer, err := try(ctx, auditor, in("acme,globex"), "")
			if err != nil {
				return nil
			}
			return placesIn(answer)
		}).Should(Equal([]string{"acme/of-acme", "globex/of-globex"}))
		Expect(placesOf(ctx, auditor, "space:acme,globex kind:!Secret")).To(BeEmpty())
		Expect(slices.Contains(placesOf(ctx, auditor, "kind:secret"), "acme/of-acme")).To(BeFalse(), "the short path is the own space")
	})
})
