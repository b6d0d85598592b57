// Package users tests Users, and who has created a namespace, by stock clients of a whole
// Tenantry: points 19 and 20 of Keystone's acceptance.
package users

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
)

var tenantry = suite.Tenants()

func TestUsers(t *testing.T) {
	suite.Run(t, "Users")
}

// objects returns a client of the Users of a space.
func objects(config *rest.Config) harness.Tenants {
	GinkgoHelper()
	users, err := harness.NewTenants(config)
	Expect(err).NotTo(HaveOccurred())
	return users
}

func newUser(name, username string, policy v1alpha1.UserNamespacePolicy) *v1alpha1.User {
	return &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UserSpec{Username: username, NamespacePolicy: policy}}
}

// create creates a User and waits until it may create namespaces.
func create(ctx context.Context, n tenant.Name, u *v1alpha1.User) *v1alpha1.User {
	GinkgoHelper()
	admin := objects(tenantry.Config(n))
	Expect(admin.WithWatch.Create(ctx, u)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
		g.Expect(u.Status.Conditions).To(ContainElement(And(HaveField("Type", "Ready"), HaveField("Status", metav1.ConditionTrue))))
	}).Should(Succeed())
	return u
}

// remove deletes a User and waits until it is gone.
func remove(ctx context.Context, n tenant.Name, u *v1alpha1.User) {
	GinkgoHelper()
	admin := objects(tenantry.Config(n))
	Expect(admin.WithWatch.Delete(ctx, u)).To(Succeed())
	Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(u), &v1alpha1.User{}) }).Should(Satisfy(apierrors.IsNotFound))
}

// by returns a client of a user of a tenant in its space.
func by(n tenant.Name, username string) *kubernetes.Clientset {
	return suite.Client(tenantry.User(n, username))
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// makes creates a namespace and returns it.
func makes(ctx context.Context, who *kubernetes.Clientset, name string) *corev1.Namespace {
	GinkgoHelper()
	ns, err := who.CoreV1().Namespaces().Create(ctx, newNamespace(name), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return ns
}

// hold has a webhook of a space call a function while it looks at a RoleBinding named late.
func hold(ctx context.Context, n tenant.Name, do func()) {
	GinkgoHelper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil {
			return
		}
		if review.Request.Name == "late" {
			do()
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(hook.Close)
	_, err := tenantry.Client(n).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "slow"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "slow.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(30)),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{rbacv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"rolebindings"}},
			}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &hook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
			},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// sendSlowly sends all but the last byte of the body of a request, the last one when it may, and returns the status.
// The body is a large one: for small ones the server waits before it authorizes anybody.
func sendSlowly(ctx context.Context, config *rest.Config, method, path, contentType, body string, may <-chan struct{}) int {
	GinkgoHelper()
	server, _, err := rest.DefaultServerUrlFor(config)
	Expect(err).NotTo(HaveOccurred())
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	body = strings.Repeat(" ", 64<<10) + body
	read, write := io.Pipe()
	go func() {
		_, _ = io.WriteString(write, body[:len(body)-1])
		<-may
		_, _ = io.WriteString(write, body[len(body)-1:])
		_ = write.Close()
	}()
	req, err := http.NewRequestWithContext(ctx, method, server.String()+path, read)
	Expect(err).NotTo(HaveOccurred())
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", contentType)
	response, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}

// writesSecret returns a function that says whether a user may write secrets in a namespace.
func writesSecret(ctx context.Context, who *kubernetes.Clientset, namespace string) func() error {
	return func() error {
		_, err := who.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
		return err
	}
}

var (
	beForbidden = Satisfy(apierrors.IsForbidden)
	forged      = map[string]string{tenant.CreatorAnnotation: "forged", tenant.CreatedByLabel: "forged"}
)

var _ = Describe("A User", func() {
	var n tenant.Name
	BeforeEach(func(ctx SpecContext) { n = tenantry.NewTenant(ctx, "users") })

	It("creates namespaces, in which it has every right, and reads these alone", func(ctx SpecContext) {
		admin, alice, bob := tenantry.Client(n), by(n, "alice"), by(n, "bob")
		_, err := alice.CoreV1().Namespaces().Create(ctx, newNamespace("early"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		u := create(ctx, n, newUser("alice", "alice", ""))
		Expect(u.Spec.NamespacePolicy).To(Equal(v1alpha1.UserNamespacesRetain))
		create(ctx, n, newUser("b", "bob", ""))

		ns := makes(ctx, alice, "hers")
		creator := tenant.Creator{}
		Expect(json.Unmarshal([]byte(ns.Annotations[tenant.CreatorAnnotation]), &creator)).To(Succeed())
		Expect(creator).To(And(HaveField("Tenant", n), HaveField("Name", "alice")))
		Expect(ns.Labels).To(HaveKeyWithValue(tenant.CreatedByLabel, string(u.UID)))
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		_, err = alice.CoreV1().Namespaces().Get(ctx, "hers", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int32 {
			Expect(objects(tenantry.Config(n)).Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
			return u.Status.Namespaces
		}).Should(Equal(int32(1)))

		makes(ctx, bob, "his")
		makes(ctx, admin, "theirs")
		Eventually(writesSecret(ctx, bob, "his")).Should(Succeed())
		for _, other := range []string{"his", "theirs", "default", "kube-system"} {
			_, err = alice.CoreV1().Namespaces().Get(ctx, other, metav1.GetOptions{})
			Expect(err).To(beForbidden, other)
			Expect(writesSecret(ctx, alice, other)()).To(beForbidden, other)
		}
		_, err = alice.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden)

		By("deleting the namespace")
		Expect(alice.CoreV1().Namespaces().Delete(ctx, "hers", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error { _, err := admin.CoreV1().Namespaces().Get(ctx, "hers", metav1.GetOptions{}); return err }).Should(Satisfy(apierrors.IsNotFound))
		makes(ctx, admin, "hers")
		Expect(writesSecret(ctx, alice, "hers")()).To(beForbidden)
	})

	It("has no rights left when it is gone, and leaves its namespaces to the administrators", func(ctx SpecContext) {
		admin, alice := tenantry.Client(n), by(n, "alice")
		u := create(ctx, n, newUser("alice", "alice", ""))
		for i := range 30 {
			makes(ctx, alice, fmt.Sprint("hers-", i))
		}
		for i := range 30 {
			Eventually(writesSecret(ctx, alice, fmt.Sprint("hers-", i))).Should(Succeed())
		}
		remove(ctx, n, u)
		_, err := alice.CoreV1().Namespaces().Create(ctx, newNamespace("late"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		for i := range 30 {
			namespace := fmt.Sprint("hers-", i)
			Expect(writesSecret(ctx, alice, namespace)()).To(beForbidden, namespace)
			_, err = alice.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			Expect(err).To(beForbidden, namespace)
			Expect(writesSecret(ctx, admin, namespace)()).To(Succeed())
		}
		bindings, err := admin.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{LabelSelector: tenant.UserLabel})
		Expect(err).NotTo(HaveOccurred())
		roles, err := admin.RbacV1().Roles("").List(ctx, metav1.ListOptions{LabelSelector: tenant.UserLabel})
		Expect(err).NotTo(HaveOccurred())
		clusterBindings, err := admin.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{LabelSelector: tenant.UserLabel})
		Expect(err).NotTo(HaveOccurred())
		Expect([]int{len(bindings.Items), len(roles.Items), len(clusterBindings.Items)}).To(Equal([]int{0, 0, 0}))

		By("making another User of that name")
		create(ctx, n, newUser("alice", "alice", ""))
		makes(ctx, alice, "new")
		Eventually(writesSecret(ctx, alice, "new")).Should(Succeed())
		Expect(writesSecret(ctx, alice, "hers-0")()).To(beForbidden)
	})

	It("keeps no rights by what its user has bound or held", func(ctx SpecContext) {
		alice := by(n, "alice")
		u := create(ctx, n, newUser("alice", "alice", ""))
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		_, err := alice.RbacV1().RoleBindings("hers").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "mine", Finalizers: []string{"example.com/hold"}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}, {Kind: "User", APIGroup: rbacv1.GroupName, Name: "bob"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		By("binding itself again and again")
		binds, stop := context.WithCancel(ctx)
		var binding sync.WaitGroup
		defer binding.Wait()
		defer stop()
		for range 4 {
			binding.Go(func() {
				for i := 0; binds.Err() == nil && i < 10_000; i++ {
					_, _ = alice.RbacV1().RoleBindings("hers").Create(binds, &rbacv1.RoleBinding{
						ObjectMeta: metav1.ObjectMeta{GenerateName: "again-"},
						Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
						RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
					}, metav1.CreateOptions{})
				}
			})
		}
		_, err = alice.RbacV1().RoleBindings("hers").Patch(ctx, "tenantry:user", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(writesSecret(ctx, by(n, "bob"), "hers")).Should(Succeed())
		hold, release := []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`), []byte(`{"metadata":{"finalizers":null}}`)
		creators := tenantry.Client(n).RbacV1().ClusterRoleBindings()
		_, err = creators.Patch(ctx, "tenantry:user:alice", types.MergePatchType, hold, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		remove(ctx, n, u)
		_, err = alice.CoreV1().Namespaces().Create(ctx, newNamespace("late"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		_, err = creators.Patch(ctx, "tenantry:user:alice", types.MergePatchType, release, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(writesSecret(ctx, alice, "hers")()).To(beForbidden)
		Expect(writesSecret(ctx, by(n, "bob"), "hers")()).To(Succeed())
		for _, name := range []string{"mine", "tenantry:user"} {
			_, err = tenantry.Client(n).RbacV1().RoleBindings("hers").Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("waits for the end of its namespaces as kubectl does", func(ctx SpecContext) {
		alice := by(n, "alice")
		create(ctx, n, newUser("alice", "alice", ""))
		makes(ctx, alice, "hers")
		makes(ctx, tenantry.Client(n), "theirs")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		named := func(name string) metav1.ListOptions {
			return metav1.ListOptions{FieldSelector: "metadata.name=" + name}
		}
		_, err := alice.CoreV1().Namespaces().List(ctx, named("theirs"))
		Expect(err).To(beForbidden)
		_, err = alice.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden)
		list, err := alice.CoreV1().Namespaces().List(ctx, named("hers"))
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
		options := named("hers")
		options.ResourceVersion = list.ResourceVersion
		watch, err := alice.CoreV1().Namespaces().Watch(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		defer watch.Stop()
		Expect(alice.CoreV1().Namespaces().Delete(ctx, "hers", metav1.DeleteOptions{})).To(Succeed())
		Eventually(watch.ResultChan()).Should(Receive(HaveField("Type", apiwatch.Deleted)))
		Eventually(func() error {
			_, err := tenantry.Client(n).CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		tenantry.DeleteTenant(ctx, n) // which ends the watch, after all that it has to tell
		var later []apiwatch.Event
		Eventually(func() bool {
			select {
			case event, open := <-watch.ResultChan():
				if open {
					later = append(later, event)
				}
				return !open
			default:
				return false
			}
		}).Should(BeTrue(), "the watch ends")
		Expect(later).To(BeEmpty(), "the next one of the name is somebody else's")
	})

	It("lists nothing of the next namespace of the name by a list that waits for it", func(ctx SpecContext) {
		alice, admin := by(n, "alice"), tenantry.Client(n)
		create(ctx, n, newUser("alice", "alice", ""))
		round := func(g Gomega) {
			name := fmt.Sprintf("hers-%d", time.Now().UnixNano())
			held := newNamespace(name)
			held.Finalizers = []string{"example.com/hold"}
			hers, err := alice.CoreV1().Namespaces().Create(ctx, held, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			options := metav1.ListOptions{FieldSelector: "metadata.name=" + name}
			Eventually(func() error { _, err := alice.CoreV1().Namespaces().List(ctx, options); return err }).Should(Succeed())
			Expect(admin.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			Eventually(func(g Gomega) { // nothing but the finalizer holds it
				ns, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(ns.Spec.Finalizers).To(BeEmpty())
			}).Should(Succeed())
			now, err := alice.CoreV1().Namespaces().List(ctx, options)
			Expect(err).NotTo(HaveOccurred())
			revision, err := strconv.ParseInt(now.ResourceVersion, 10, 64)
			Expect(err).NotTo(HaveOccurred())

			const lists = 12
			answers := make(chan *corev1.NamespaceList, lists)
			for i := range int64(lists) {
				waiting := options
				waiting.ResourceVersion, waiting.ResourceVersionMatch = strconv.FormatInt(revision+i+1, 10), metav1.ResourceVersionMatchNotOlderThan
				go func() {
					list, err := alice.CoreV1().Namespaces().List(ctx, waiting)
					if err != nil {
						list = nil // it came too late, or waited too long
					}
					answers <- list
				}()
			}
			write := func() {
				_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "later-"}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			write()
			first := <-answers // others wait, or are about to
			_, err = admin.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			next, err := admin.CoreV1().Namespaces().Create(ctx, newNamespace(name), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(next.UID).NotTo(Equal(hers.UID))
			for range lists {
				write()
			}
			born, err := strconv.ParseInt(next.ResourceVersion, 10, 64)
			Expect(err).NotTo(HaveOccurred())
			waited := false
			for i := range lists {
				list := first
				if i > 0 {
					list = <-answers
				}
				if list == nil {
					continue
				}
				for _, item := range list.Items {
					Expect(item.UID).To(Equal(hers.UID), "alice sees the next one of the name")
				}
				at, err := strconv.ParseInt(list.ResourceVersion, 10, 64)
				Expect(err).NotTo(HaveOccurred())
				waited = waited || at >= born
			}
			g.Expect(waited).To(BeTrue(), "no list was answered when the next one was there")
		}
		Eventually(round).WithTimeout(time.Minute).Should(Succeed())
	})

	It("finds nothing of the earlier namespace of the name by the resource versions of its time", func(ctx SpecContext) {
		alice, bob := by(n, "alice"), by(n, "bob")
		create(ctx, n, newUser("alice", "alice", ""))
		create(ctx, n, newUser("bob", "bob", ""))
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		list, err := alice.CoreV1().Secrets("hers").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).NotTo(BeEmpty())
		then := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
		exactly := metav1.ListOptions{ResourceVersion: list.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		Expect(alice.CoreV1().Secrets("hers").List(ctx, exactly)).To(HaveField("Items", HaveLen(len(list.Items))))
		Expect(alice.CoreV1().Namespaces().Delete(ctx, "hers", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := bob.CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Eventually(writesSecret(ctx, bob, "hers")).Should(Succeed())

		_, err = bob.CoreV1().Secrets("hers").List(ctx, exactly)
		Expect(err).To(Satisfy(apierrors.IsResourceExpired))
		expired := func(watch apiwatch.Interface, err error) {
			GinkgoHelper()
			Expect(err).NotTo(HaveOccurred())
			defer watch.Stop()
			var event apiwatch.Event
			Eventually(watch.ResultChan()).Should(Receive(&event))
			Expect(apierrors.FromObject(event.Object)).To(Satisfy(apierrors.IsResourceExpired), "%+v", event)
		}
		expired(bob.CoreV1().Secrets("hers").Watch(ctx, then))
		exactly.FieldSelector, then.FieldSelector = "metadata.name=hers", "metadata.name=hers"
		_, err = bob.CoreV1().Namespaces().List(ctx, exactly)
		Expect(err).To(Satisfy(apierrors.IsResourceExpired))
		expired(bob.CoreV1().Namespaces().Watch(ctx, then))
	})

	It("has no rights in its namespaces while it is being deleted", func(ctx SpecContext) {
		admin, alice := objects(tenantry.Config(n)), by(n, "alice")
		u := newUser("alice", "alice", "")
		u.Finalizers = []string{"example.com/hold"}
		create(ctx, n, u)
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		_, err := tenantry.Client(n).RbacV1().RoleBindings("hers").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(admin.WithWatch.Delete(ctx, u)).To(Succeed())
		Eventually(writesSecret(ctx, alice, "hers")).Should(beForbidden)
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
			g.Expect(u.Finalizers).To(ConsistOf("example.com/hold"))
		}).Should(Succeed(), "the controller has done what it does")
		Expect(writesSecret(ctx, alice, "hers")()).To(beForbidden)
		Expect(writesSecret(ctx, by(n, "bob"), "hers")()).To(Succeed())
		Expect(admin.WithWatch.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed(), "whose group has rights")
	})

	It("gains nothing by what is stored late", func(ctx SpecContext) {
		alice, bob := by(n, "alice"), by(n, "bob")
		for _, name := range []string{"alice", "bob"} {
			create(ctx, n, newUser(name, name, ""))
		}
		held, release := make(chan struct{}), make(chan struct{})
		hold(ctx, n, func() { close(held); <-release })
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		late := make(chan error, 1)
		go func() {
			_, err := alice.RbacV1().RoleBindings("hers").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "late"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
				Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}},
			}, metav1.CreateOptions{})
			late <- err
		}()
		Eventually(held).Should(BeClosed())
		Expect(alice.CoreV1().Namespaces().Delete(ctx, "hers", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error { _, err := alice.CoreV1().Namespaces().Get(ctx, "hers", metav1.GetOptions{}); return err }).Should(beForbidden)
		Eventually(func() error {
			_, err := bob.CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		close(release)
		Eventually(late).Should(Receive(Satisfy(apierrors.IsConflict)))
		Expect(writesSecret(ctx, alice, "hers")()).To(beForbidden)
	})

	It("gains nothing by what is answered late", func(ctx SpecContext) {
		alice, bob := by(n, "alice"), by(n, "bob")
		for _, name := range []string{"alice", "bob"} {
			create(ctx, n, newUser(name, name, ""))
		}
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		watch, err := alice.CoreV1().Secrets("hers").Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer watch.Stop()
		Expect(alice.CoreV1().Namespaces().Delete(ctx, "hers", metav1.DeleteOptions{})).To(Succeed())
		config := rest.CopyConfig(tenantry.User(n, "alice"))
		release := make(chan struct{})
		answers := make(chan int, 4)
		sent := func(method, path, contentType, body string) {
			go func() {
				defer GinkgoRecover()
				answers <- sendSlowly(ctx, config, method, path, contentType, body, release)
			}()
		}
		token := `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","spec":{"expirationSeconds":86400}}`
		sent(http.MethodPost, "/api/v1/namespaces/hers/serviceaccounts/default/token", "application/json", token)
		sent(http.MethodPatch, "/api/v1/namespaces/hers/configmaps/kube-root-ca.crt?dryRun=All", string(types.MergePatchType), `{"data":{"a":"b"}}`)
		sent(http.MethodPatch, "/api/v1/namespaces/hers", string(types.MergePatchType), `{"metadata":{"labels":{"a":"b"}}}`)
		sent(http.MethodDelete, "/api/v1/namespaces/hers", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1"}`)
		Eventually(func() error {
			_, err := bob.CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Eventually(func() error {
			_, err := bob.CoreV1().ServiceAccounts("hers").Get(ctx, "default", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		Eventually(func() error {
			_, err := bob.CoreV1().ConfigMaps("hers").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		close(release)
		for range cap(answers) {
			Eventually(answers).Should(Receive(Equal(http.StatusConflict)))
		}
		Expect(writesSecret(ctx, bob, "hers")()).To(Succeed())
		By("watching from before")
		var last apiwatch.EventType
		for event := range watch.ResultChan() { // it ends
			last = event.Type
		}
		Expect(last).To(Equal(apiwatch.Deleted))
	})

	It("takes its namespaces with it if it is to", func(ctx SpecContext) {
		admin, alice := tenantry.Client(n), by(n, "alice")
		u := create(ctx, n, newUser("alice", "alice", v1alpha1.UserNamespacesDelete))
		makes(ctx, alice, "hers")
		makes(ctx, admin, "theirs")
		remove(ctx, n, u)
		Eventually(func() error { _, err := admin.CoreV1().Namespaces().Get(ctx, "hers", metav1.GetOptions{}); return err }).Should(Satisfy(apierrors.IsNotFound))
		_, err := admin.CoreV1().Namespaces().Get(ctx, "theirs", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("goes with its tenant", func(ctx SpecContext) {
		create(ctx, n, newUser("alice", "alice", v1alpha1.UserNamespacesDelete))
		makes(ctx, by(n, "alice"), "hers")
		tenantry.DeleteTenant(ctx, n)
		tenantry.CreateTenants(ctx, n)
		_, err := by(n, "alice").CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
	})

	It("gets back what somebody has changed or taken away", func(ctx SpecContext) {
		admin, alice := tenantry.Client(n), by(n, "alice")
		create(ctx, n, newUser("alice", "alice", ""))
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		Expect(admin.RbacV1().RoleBindings("hers").Delete(ctx, "tenantry:user", metav1.DeleteOptions{})).To(Succeed())
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		By("another role, with a finalizer")
		Eventually(func() error {
			_ = alice.RbacV1().RoleBindings("hers").Delete(ctx, "tenantry:user", metav1.DeleteOptions{})
			_, err := admin.RbacV1().RoleBindings("hers").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "tenantry:user", Finalizers: []string{"example.com/hold"}},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			}, metav1.CreateOptions{})
			return err
		}).WithPolling(time.Millisecond).Should(Succeed())
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		By("other subjects")
		_, err := alice.RbacV1().RoleBindings("hers").Patch(ctx, "tenantry:user", types.MergePatchType,
			[]byte(`{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"mallory"}]}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []rbacv1.Subject {
			found, err := admin.RbacV1().RoleBindings("hers").Get(ctx, "tenantry:user", metav1.GetOptions{})
			Expect(client.IgnoreNotFound(err)).To(Succeed())
			return found.Subjects
		}).Should(ConsistOf(HaveField("Name", "alice")))
		_, err = alice.RbacV1().RoleBindings("hers").Patch(ctx, "tenantry:user", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"tenantry.io/user":null}}}`), metav1.PatchOptions{})
		Expect(err).To(beForbidden)
		_, err = admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{
			Name: "forged", Labels: map[string]string{tenant.UserLabel: "forged"}}}, metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		Expect(admin.RbacV1().ClusterRoleBindings().Delete(ctx, "tenantry:user:alice", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := alice.CoreV1().Namespaces().Create(ctx, newNamespace("again"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
	})

	It("is given by those alone who may bind what it gets", func(ctx SpecContext) {
		admin := tenantry.Client(n)
		bind := func(who, role string) {
			GinkgoHelper()
			_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: who + "-" + role}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: who}},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		may := func(name string, rules ...rbacv1.PolicyRule) {
			GinkgoHelper()
			_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		binds := func(role string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"bind"}, ResourceNames: []string{role}}
		}
		may("users", rbacv1.PolicyRule{APIGroups: []string{"tenantry.io"}, Resources: []string{"users", "users/status"}, Verbs: []string{"*"}})
		may("bind-one", binds(v1alpha1.NamespaceCreator))
		may("bind-other", binds("cluster-admin"))
		for _, who := range []string{"ed", "half", "whole"} {
			bind(who, "users")
			bind(who, "edit")
		}
		bind("half", "bind-one")
		bind("whole", "bind-one")
		bind("whole", "bind-other")
		for _, who := range []string{"ed", "half"} {
			users := objects(tenantry.User(n, who))
			err := users.WithWatch.Create(ctx, newUser(who, who, ""))
			Expect(err).To(beForbidden)
			Expect(err).To(MatchError(ContainSubstring(`needs the verb "bind"`)))
			Expect(users.WithWatch.Create(ctx, newUser(who, who, ""), client.DryRunAll)).To(beForbidden)
		}
		whole := objects(tenantry.User(n, "whole"))
		u := newUser("whole", "somebody", "")
		Expect(whole.WithWatch.Create(ctx, u)).To(Succeed())
		for _, patch := range []string{`{"spec":{"namespacePolicy":"Delete"}}`, `{"metadata":{"labels":{"a":"b"}}}`} {
			Expect(objects(tenantry.User(n, "ed")).Patch(ctx, newUser("whole", "", ""), client.RawPatch(types.MergePatchType, []byte(patch)))).To(beForbidden)
		}
		Expect(whole.Patch(ctx, newUser("whole", "", ""), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"username":"else"}}`)))).
			To(MatchError(ContainSubstring("cannot be changed")))

		By("what it may not be")
		all := objects(tenantry.Config(n))
		Expect(all.WithWatch.Create(ctx, newUser("twice", "somebody", ""))).To(MatchError(ContainSubstring("it is that of User whole")))
		Expect(all.WithWatch.Create(ctx, newUser("sys", "system:admin", ""))).To(MatchError(ContainSubstring("are the platform's")))
		Expect(all.WithWatch.Create(ctx, newUser("sa", "system:serviceaccount:a:b", ""))).To(MatchError(ContainSubstring("are the platform's")))
		Expect(all.WithWatch.Create(ctx, newUser("a:b", "x", ""))).To(Satisfy(apierrors.IsInvalid))
		Expect(objects(tenantry.Config(tenant.System)).WithWatch.Create(ctx, newUser("x", "x", ""))).To(MatchError(ContainSubstring("belongs into the space of its tenant")))

		By("its finalizer")
		Eventually(func() error {
			Expect(all.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
			u.Finalizers = nil
			return all.WithWatch.Update(ctx, u)
		}).Should(Succeed())
		Expect(u.Finalizers).To(ConsistOf(v1alpha1.UserFinalizer))
		Expect(all.Patch(ctx, newUser("whole", "", ""), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(all.Get(ctx, client.ObjectKeyFromObject(u), u)).To(Succeed())
		Expect(u.Finalizers).To(ConsistOf(v1alpha1.UserFinalizer))
	})

	It("is one of its own tenant", func(ctx SpecContext) {
		other := tenantry.NewTenant(ctx, "users")
		create(ctx, n, newUser("alice", "alice", ""))
		_, err := by(other, "alice").CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)
		_, err = suite.Client(tenantry.In(n, tenantry.User(other, "alice"))).CoreV1().Namespaces().Create(ctx, newNamespace("hers"), metav1.CreateOptions{})
		Expect(err).To(beForbidden)

		By("letting the other one in")
		policy := &v1alpha1.TenantAccessPolicy{ObjectMeta: metav1.ObjectMeta{Name: "others"}, Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{{Tenant: other.String(), Kind: v1alpha1.SubjectUser, Name: "alice"}},
			Rules:    []v1alpha1.AccessRule{{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: []string{"namespaces"}, Namespaces: []string{"*"}}},
		}}
		body, err := json.Marshal(withType(policy))
		Expect(err).NotTo(HaveOccurred())
		Expect(tenantry.Client(n).RESTClient().Post().AbsPath("/apis/tenantry.io/v1alpha1/tenantaccesspolicies").Body(body).Do(ctx).Error()).To(Succeed())
		foreign := suite.Client(tenantry.In(n, tenantry.User(other, "alice")))
		ns := makes(ctx, foreign, "foreign")
		Expect(ns.Annotations[tenant.CreatorAnnotation]).To(ContainSubstring(`"tenant":"` + other.String() + `"`))
		Expect(ns.Labels).NotTo(HaveKey(tenant.CreatedByLabel))
		makes(ctx, by(n, "alice"), "later")
		Eventually(writesSecret(ctx, by(n, "alice"), "later")).Should(Succeed(), "the controller has seen a later namespace")
		Expect(writesSecret(ctx, by(n, "alice"), "foreign")()).To(beForbidden)
	})

	It("is counted by quotas", func(ctx SpecContext) {
		_, err := tenantry.Tenants().Patch(ctx, n.String(), types.MergePatchType, []byte(`{"spec":{"quota":{"count/users.tenantry.io":"1"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		users := objects(tenantry.Config(n))
		Eventually(func(g Gomega) {
			quota, err := tenantry.Client(n).CoreV1().ResourceQuotas("default").Get(ctx, v1alpha1.TenantQuota, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(quota.Status.Hard).To(HaveKey(corev1.ResourceName("count/users.tenantry.io")))
		}).Should(Succeed())
		Expect(users.WithWatch.Create(ctx, newUser("a", "a", ""))).To(Succeed())
		Expect(users.WithWatch.Create(ctx, newUser("b", "b", ""))).To(MatchError(ContainSubstring("exceeded quota")))
	})
})

func withType(p *v1alpha1.TenantAccessPolicy) *v1alpha1.TenantAccessPolicy {
	p.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TenantAccessPolicy"}
	return p
}

var _ = Describe("Who has created a namespace", func() {
	var (
		n            tenant.Name
		alice, admin *kubernetes.Clientset
		u            *v1alpha1.User
		mine         map[string]string
	)
	BeforeEach(func(ctx SpecContext) {
		n = tenantry.NewTenant(ctx, "stamps")
		alice, admin = by(n, "alice"), tenantry.Client(n)
		u = create(ctx, n, newUser("alice", "alice", ""))
		mine = map[string]string{tenant.CreatorAnnotation: fmt.Sprintf(`{"tenant":%q,"name":"alice"}`, n), tenant.CreatedByLabel: string(u.UID)}
	})
	// stamp returns what a namespace says of who has created it.
	stamp := func(ns *corev1.Namespace) map[string]string {
		found := map[string]string{}
		if value, ok := ns.Annotations[tenant.CreatorAnnotation]; ok {
			found[tenant.CreatorAnnotation] = value
		}
		if value, ok := ns.Labels[tenant.CreatedByLabel]; ok {
			found[tenant.CreatedByLabel] = value
		}
		return found
	}
	expect := func(ctx context.Context, name string, want map[string]string) {
		GinkgoHelper()
		ns, err := admin.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(stamp(ns)).To(Equal(want))
	}

	It("is never what clients say", func(ctx SpecContext) {
		forgery := newNamespace("json")
		forgery.Annotations, forgery.Labels = forged, forged
		_, err := alice.CoreV1().Namespaces().Create(ctx, forgery, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expect(ctx, "json", mine)

		forgery.Name = "protobuf"
		protobuf := tenantry.User(n, "alice")
		protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
		_, err = suite.Client(protobuf).CoreV1().Namespaces().Create(ctx, forgery, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expect(ctx, "protobuf", mine)

		yaml := "apiVersion: v1\nkind: Namespace\nmetadata: {name: yaml, labels: {tenantry.io/created-by: forged}, annotations: {tenantry.io/creator: forged}}"
		Expect(alice.CoreV1().RESTClient().Post().Resource("namespaces").SetHeader("Content-Type", runtime.ContentTypeYAML).Body([]byte(yaml)).Do(ctx).Error()).To(Succeed())
		expect(ctx, "yaml", mine)

		By("applying one that is not there")
		apply := func(who *kubernetes.Clientset, name string) error {
			_, err := who.CoreV1().Namespaces().Apply(ctx, applycorev1.Namespace(name).WithLabels(forged).WithAnnotations(forged),
				metav1.ApplyOptions{FieldManager: "forger", Force: true})
			return err
		}
		Expect(apply(admin, "applied")).To(Succeed())
		expect(ctx, "applied", map[string]string{tenant.CreatorAnnotation: fmt.Sprintf(`{"tenant":%q,"name":"admin"}`, n)})

		By("impersonating")
		config := tenantry.Config(n)
		config.Impersonate.UserName = "alice"
		makes(ctx, suite.Client(config), "impersonated")
		expect(ctx, "impersonated", mine)
		for _, name := range []string{"default", "kube-system"} {
			expect(ctx, name, map[string]string{})
		}
		system := suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))
		forgery.Name = "platform"
		_, err = system.CoreV1().Namespaces().Create(ctx, forgery, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		expect(ctx, "platform", map[string]string{})
	})

	It("stays, whoever changes the namespace in which way", func(ctx SpecContext) {
		makes(ctx, alice, "hers")
		Eventually(writesSecret(ctx, alice, "hers")).Should(Succeed())
		for _, who := range []*kubernetes.Clientset{alice, admin, suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))} {
			namespaces := who.CoreV1().Namespaces()
			for _, to := range []map[string]string{nil, forged} {
				ns, err := namespaces.Get(ctx, "hers", metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				ns.Labels, ns.Annotations = to, to
				_, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{})
				Expect(err).NotTo(HaveOccurred())
				expect(ctx, "hers", mine)
				for _, subresource := range []string{"status", "finalize"} {
					ns.ResourceVersion = ""
					ns.Labels, ns.Annotations = to, to
					if subresource == "status" {
						_, err = namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
					} else {
						_, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
					}
					Expect(err).NotTo(HaveOccurred(), subresource)
					expect(ctx, "hers", mine)
				}
			}
			for _, subresources := range [][]string{nil, {"status"}} {
				for kind, patch := range map[types.PatchType]string{
					types.MergePatchType:          `{"metadata":{"labels":{"tenantry.io/created-by":"forged"},"annotations":null}}`,
					types.StrategicMergePatchType: `{"metadata":{"labels":{"$patch":"replace"},"annotations":{"tenantry.io/creator":"forged"}}}`,
					types.JSONPatchType:           `[{"op":"remove","path":"/metadata/labels/tenantry.io~1created-by"},{"op":"replace","path":"/metadata/annotations/tenantry.io~1creator","value":"forged"}]`,
				} {
					_, err := namespaces.Patch(ctx, "hers", kind, []byte(patch), metav1.PatchOptions{}, subresources...)
					Expect(err).NotTo(HaveOccurred(), "%s %s", kind, subresources)
					expect(ctx, "hers", mine)
				}
			}
			_, err := namespaces.Apply(ctx, &applycorev1.NamespaceApplyConfiguration{
				TypeMetaApplyConfiguration:   *applymetav1.TypeMeta().WithAPIVersion("v1").WithKind("Namespace"),
				ObjectMetaApplyConfiguration: applymetav1.ObjectMeta().WithName("hers").WithLabels(forged).WithAnnotations(forged),
			}, metav1.ApplyOptions{FieldManager: "forger", Force: true})
			Expect(err).NotTo(HaveOccurred())
			expect(ctx, "hers", mine)
		}
		Expect(writesSecret(ctx, alice, "hers")()).To(Succeed())
	})

	It("is not for webhooks of the tenant to say", func(ctx SpecContext) {
		hook := httptest.NewTLSServer(http.HandlerFunc(forge))
		DeferCleanup(hook.Close)
		everything := admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces", "namespaces/*"}},
		}
		_, err := admin.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "forger"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "forger.example.com", AdmissionReviewVersions: []string{"v1"}, Rules: []admissionregistrationv1.RuleWithOperations{everything},
				SideEffects: new(admissionregistrationv1.SideEffectClassNone),
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					URL: &hook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
				},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		tried := 0
		Eventually(func() string {
			tried++
			return makes(ctx, alice, fmt.Sprint("mutated-", tried)).Labels["met"]
		}).Should(Equal("webhook"))
		name := fmt.Sprint("mutated-", tried)
		expect(ctx, name, mine)
		_, err = admin.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		expect(ctx, name, mine)
	})

	It("is not for policies of the tenant to say", func(ctx SpecContext) {
		policy := &admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "forger"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
						Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
					},
				}}},
				Mutations: []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeApplyConfiguration, ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{labels: {"tenantry.io/created-by": "forged", "met": "policy"}, annotations: {"tenantry.io/creator": "forged"}}}`,
				}}},
			},
		}
		_, err := admin.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = admin.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "forger"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "forger"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		tried := 0
		Eventually(func() string {
			tried++
			return makes(ctx, alice, fmt.Sprint("mutated-", tried)).Labels["met"]
		}).Should(Equal("policy"))
		name := fmt.Sprint("mutated-", tried)
		expect(ctx, name, mine)
		_, err = admin.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		expect(ctx, name, mine)
	})
})

// forge answers reviews with forged labels and annotations.
func forge(w http.ResponseWriter, req *http.Request) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch),
		Patch: []byte(`[{"op":"add","path":"/metadata/labels","value":{"tenantry.io/created-by":"forged","met":"webhook"}},` +
			`{"op":"add","path":"/metadata/annotations","value":{"tenantry.io/creator":"forged"}}]`),
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		GinkgoLogr.Error(err, "answering the review")
	}
}
