package search

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// namespaceIn makes a namespace of a name that begins so, which goes with the spec.
func namespaceIn(ctx context.Context, n tenant.Name, prefix string) string {
	GinkgoHelper()
	client := tenantry.Client(n).CoreV1().Namespaces()
	created, err := client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { Expect(client.Delete(ctx, created.Name, metav1.DeleteOptions{})).To(Succeed()) })
	return created.Name
}

func secretIn(ctx context.Context, n tenant.Name, namespace, name string) *corev1.Secret {
	GinkgoHelper()
	created, err := tenantry.Client(n).CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{annotation: "Ours", "example.com/other": "hidden-annotation"}},
		StringData: map[string]string{"password": "hidden-password"},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return created
}

// let gives a user a right in a namespace, and returns the binding. It goes with the spec, and not when its namespace
// has been emptied: other specs have the same users.
func let(ctx context.Context, n tenant.Name, namespace, user string, rule rbacv1.PolicyRule) *rbacv1.RoleBinding {
	GinkgoHelper()
	client := tenantry.Client(n).RbacV1()
	role, err := client.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "role-"}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding, err := client.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "binding-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = client.RoleBindings(namespace).Delete(ctx, binding.Name, metav1.DeleteOptions{})
	})
	return binding
}

var listSecrets = rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}

// get asks for a path and returns the status and the body.
func get(ctx context.Context, config *rest.Config, path string) (int, string) {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var body json.RawMessage
	_ = json.NewDecoder(response.Body).Decode(&body) // some answers are text
	return response.StatusCode, string(body)
}

var _ = Describe("a search", func() {
	It("is for those who log in, in spaces that they may enter", func(ctx SpecContext) {
		nobody := rest.AnonymousClientConfig(tenantry.Config(acme))
		for _, path := range []string{"/search", "/search?q=kind:pod"} {
			status, body := get(ctx, nobody, path)
			Expect(status).To(Equal(http.StatusUnauthorized), body)
		}
		wrong := rest.CopyConfig(nobody)
		wrong.BearerToken = "wrong"
		status, body := get(ctx, wrong, search.Path)
		Expect(status).To(Equal(http.StatusUnauthorized), body)

		foreign := tenantry.In(globex, tenantry.User(acme, jane))
		status, body = get(ctx, foreign, search.Path)
		Expect(status).To(Equal(http.StatusForbidden), body)
		nowhere := tenantry.In("nowhere", tenantry.User(acme, jane))
		status, other := get(ctx, nowhere, search.Path)
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(other).To(Equal(body), "it tells which tenants there are")
		status, _ = get(ctx, tenantry.In("nowhere", tenantry.Config(tenant.System)), search.Path)
		Expect(status).To(Equal(http.StatusNotFound))
		answers := map[string]bool{}
		for _, n := range []tenant.Name{acme, "nowhere"} {
			status, body = get(ctx, tenantry.In(n, tenantry.User(tenant.System, jane)), search.Path)
			Expect(status).To(Equal(http.StatusForbidden), body)
			answers[body] = true
		}
		Expect(answers).To(HaveLen(1), "it tells which tenants there are")
		status, _ = get(ctx, tenantry.In(suite.All, tenantry.Config(tenant.System)), search.Path)
		Expect(status).NotTo(Equal(http.StatusOK), "of many spaces at once")
		status, _ = get(ctx, tenantry.Config(acme), "/search/pods")
		Expect(status).To(BeElementOf(http.StatusForbidden, http.StatusNotFound))
	})

	It("finds nothing without rights", func(ctx SpecContext) {
		answer, err := try(ctx, tenantry.User(acme, jane), "", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Items).To(BeEmpty())
		Expect(answer.Items).NotTo(BeNil())
		Expect(answer.Count).To(BeZero())
		Expect(answer.Messages).To(BeEmpty())
	})

	It("finds in the own space on the short path, whatever others have by the same name", func(ctx SpecContext) {
		for _, n := range []tenant.Name{acme, globex} {
			namespaceIn(ctx, n, "twins")
			secretIn(ctx, n, "default", "twin")
			DeferCleanup(func(ctx SpecContext) {
				Expect(tenantry.Client(n).CoreV1().Secrets("default").Delete(ctx, "twin", metav1.DeleteOptions{})).To(Succeed())
			})
		}
		for _, config := range []*rest.Config{tenantry.Config(acme), tenantry.ShortPath(tenantry.Config(acme))} {
			answer, err := try(ctx, config, "name:twin kind:secret", "")
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.Items).To(HaveLen(1))
			Expect(answer.Items[0].Space).To(Equal("acme"))
		}
		Expect(find(ctx, tenantry.ShortPath(tenantry.Config(tenant.System)), "name:twin", "")).To(BeEmpty())
	})

	It("shows metadata alone", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "metadata")
		secretIn(ctx, acme, namespace, "keys")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "image", Args: []string{"hidden-arg"}, Env: []corev1.EnvVar{{Name: "A", Value: "hidden-env"}}}}}}
		_, err := tenantry.Client(acme).CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		status, body := get(ctx, tenantry.Config(acme), "/search?q=namespace:"+namespace)
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(body).To(And(ContainSubstring(`"Ours"`), ContainSubstring(`"app":"web"`), ContainSubstring(`"Pending"`), Not(ContainSubstring("hidden"))))
		Expect(find(ctx, tenantry.Config(acme), "hidden namespace:"+namespace, "")).To(BeEmpty())
		Expect(find(ctx, tenantry.Config(acme), "ours namespace:"+namespace, "")).To(Equal([]string{"keys"}))
	})

	It("has a page after the other", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "pages")
		for i := range 5 {
			secretIn(ctx, acme, namespace, fmt.Sprint("s", i))
		}
		var names []string
		for token := ""; ; {
			status, body := get(ctx, tenantry.Config(acme), "/search?limit=2&q=kind:secret+namespace:"+namespace+"&continue="+token)
			Expect(status).To(Equal(http.StatusOK), body)
			var page search.Answer
			Expect(json.Unmarshal([]byte(body), &page)).To(Succeed())
			Expect(page.Count).To(BeEquivalentTo(5))
			for _, item := range page.Items {
				names = append(names, item.Name)
			}
			if token = page.Continue; token == "" {
				break
			}
		}
		Expect(names).To(Equal([]string{"s0", "s1", "s2", "s3", "s4"}))
	})

	It("says what is wrong with it", func(ctx SpecContext) {
		for query, message := range map[string]string{
			"?q=name:": "filter", "?limit=0": "limit", "?limit=10001": "limit", "?continue=x": "continue", "?minRevision=x": "minRevision", "?what=x": "what",
		} {
			status, body := get(ctx, tenantry.Config(acme), "/search"+query)
			Expect(status).To(Equal(http.StatusBadRequest), query)
			Expect(body).To(ContainSubstring(message))
		}
	})

	It("follows a suspension", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "suspended")
		Expect(find(ctx, tenantry.Config(n), "kind:namespace name:default", "")).To(HaveLen(1))
		Expect(tenantry.SetSpec(ctx, n, "suspended", "true")).To(Succeed())
		status, _ := get(ctx, tenantry.Config(n), search.Path)
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(find(ctx, tenantry.In(n, tenantry.Config(tenant.System)), "kind:namespace name:default", "")).To(HaveLen(1))
	})

	It("is as of a revision, and not an earlier one", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "revisions")
		for i := range 20 {
			created := secretIn(ctx, acme, namespace, fmt.Sprint("s", i))
			Expect(find(ctx, tenantry.Config(acme), "kind:secret namespace:"+namespace, created.ResourceVersion)).To(HaveLen(i + 1))
		}
	})

	It("follows definitions", func(ctx SpecContext) {
		things := schema.GroupVersionResource{Group: "things.example.com", Version: "v1", Resource: "things"}
		client := suite.Definitions(tenantry.Config(initech))
		objects := suite.Dynamic(tenantry.Config(initech)).Resource(things)
		define := func(scope apiextensionsv1.ResourceScope) {
			_, err := client.Create(ctx, suite.NewDefinition(things, "Thing", scope), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		remove := func() {
			Expect(client.Delete(ctx, things.GroupResource().String(), metav1.DeleteOptions{})).To(Succeed())
			Eventually(func() error {
				_, err := client.Get(ctx, things.GroupResource().String(), metav1.GetOptions{})
				return err
			}).Should(Satisfy(apierrors.IsNotFound))
		}
		created := "" // a revision: objects may lag behind
		create := func(in dynamic.ResourceInterface, namespace, name string) {
			GinkgoHelper()
			Eventually(func() error {
				object, err := in.Create(ctx, newObject(things, "Thing", namespace, name, nil), metav1.CreateOptions{})
				if err == nil {
					created = object.GetResourceVersion()
				}
				return err
			}).Should(Succeed())
		}
		define(apiextensionsv1.NamespaceScoped)
		create(objects.Namespace("default"), "default", "one")
		binding := let(ctx, initech, "default", jane, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{things.Group}, Resources: []string{"*"}})
		DeferCleanup(func(ctx SpecContext) {
			Expect(tenantry.Client(initech).RbacV1().RoleBindings("default").Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		Expect(find(ctx, tenantry.User(initech, jane), "kind:thing", created)).To(Equal([]string{"one"}))
		Expect(find(ctx, tenantry.Config(globex), "kind:thing", "")).To(BeEmpty())
		remove()
		Expect(find(ctx, tenantry.Config(initech), "kind:thing", "")).To(BeEmpty())
		define(apiextensionsv1.ClusterScoped)
		create(objects, "", "two")
		Expect(find(ctx, tenantry.Config(initech), "kind:thing", created)).To(Equal([]string{"two"}))
		Expect(find(ctx, tenantry.User(initech, jane), "kind:thing", "")).To(BeEmpty(), "a RoleBinding gives nothing of cluster scope")
		remove()
	})

	It("never shows what was created after a right was taken away, nor what went before it was given", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "revoked")
		done := make(chan struct{})
		var mu sync.Mutex
		seen, forbidden := 0, map[string]bool{}
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() {
				defer GinkgoRecover()
				for {
					answer, err := try(ctx, tenantry.User(acme, jane), "", "")
					if apierrors.IsServiceUnavailable(err) {
						continue
					}
					Expect(err).NotTo(HaveOccurred())
					mu.Lock()
					seen += len(answer.Items)
					for _, item := range answer.Items {
						Expect(forbidden[item.Name]).To(BeFalse(), item.Name)
					}
					mu.Unlock()
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		client := tenantry.Client(acme)
		for i := range 30 {
			before, during, after := fmt.Sprint("before-", i), fmt.Sprint("during-", i), fmt.Sprint("after-", i)
			mu.Lock()
			forbidden[before], forbidden[after] = true, true
			mu.Unlock()
			secretIn(ctx, acme, namespace, before)
			Expect(client.CoreV1().Secrets(namespace).Delete(ctx, before, metav1.DeleteOptions{})).To(Succeed())
			binding := let(ctx, acme, namespace, jane, listSecrets)
			secretIn(ctx, acme, namespace, during)
			Expect(find(ctx, tenantry.User(acme, jane), "", "")).To(Equal([]string{during}))
			Expect(client.CoreV1().Secrets(namespace).Delete(ctx, during, metav1.DeleteOptions{})).To(Succeed())
			Expect(client.RbacV1().RoleBindings(namespace).Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
			secretIn(ctx, acme, namespace, after)
			Expect(find(ctx, tenantry.User(acme, jane), "", "")).To(BeEmpty())
			Expect(client.CoreV1().Secrets(namespace).Delete(ctx, after, metav1.DeleteOptions{})).To(Succeed())
		}
		close(done)
		asking.Wait()
		Expect(seen).To(BeNumerically(">", 0), "nothing was ever found")
	}, NodeTimeout(3*time.Minute))

	It("finds the same for a user bound in many namespaces as an administrator does there", func(ctx SpecContext) {
		var names []string
		created := ""
		for range 12 {
			namespace := namespaceIn(ctx, globex, "many")
			let(ctx, globex, namespace, jane, listSecrets)
			created = secretIn(ctx, globex, namespace, "s-"+namespace).ResourceVersion
			names = append(names, "s-"+namespace)
		}
		slices.Sort(names)
		Expect(find(ctx, tenantry.User(globex, jane), "", created)).To(ConsistOf(names))
		Expect(find(ctx, tenantry.Config(globex), "kind:secret namespace:many-*", created)).To(ConsistOf(names))
	})
})
