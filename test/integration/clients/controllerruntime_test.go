package clients

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tenantry/tenantry/internal/tenant"
)

const finalizer = "example.com/mirror"

// mirror is a small operator: it keeps a Secret beside every ConfigMap and a
// finalizer on it.
type mirror struct {
	client client.Client
	space  tenant.Name
}

func (m *mirror) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := m.client.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Name == "kube-root-ca.crt" {
		return ctrl.Result{}, nil
	}
	if !source.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(source, finalizer)
		return ctrl.Result{}, m.client.Update(ctx, source)
	}
	if controllerutil.AddFinalizer(source, finalizer) {
		if err := m.client.Update(ctx, source); err != nil {
			return ctrl.Result{}, err
		}
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, m.client, copied, func() error {
		copied.StringData = map[string]string{"owner": source.Data["owner"], "space": m.space.String()}
		return controllerutil.SetControllerReference(source, copied, m.client.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("mirroring %q: %w", source.Name, err)
	}
	return ctrl.Result{}, nil
}

var _ = Describe("controller-runtime", func() {
	for _, form := range forms {
		It("runs one operator in each space, with the "+form.name, func(ctx SpecContext) {
			namespace := "operator-" + form.name
			spaces := []tenant.Name{"a", "b"}
			clients := map[tenant.Name]client.Client{}
			for _, space := range spaces {
				config := form.config(tenantry.Config(space))
				createNamespace(ctx, config, namespace)
				clients[space] = startOperator(config, namespace, space)
			}
			for _, space := range spaces {
				apply(ctx, form.config(tenantry.Config(space)), namespace, "settings", space.String())
			}
			for _, space := range spaces {
				Eventually(func(g Gomega) {
					copied := &corev1.Secret{}
					g.Expect(clients[space].Get(ctx, client.ObjectKey{Namespace: namespace, Name: "settings"}, copied)).To(Succeed())
					g.Expect(copied.Data).To(Equal(map[string][]byte{"owner": []byte(space), "space": []byte(space)}))
				}).WithContext(ctx).Should(Succeed())
			}

			// Deletion in one space runs the finalizer and the garbage collector
			// there and leaves the other alone.
			settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}}
			Expect(clients["a"].Delete(ctx, settings)).To(Succeed())
			Eventually(func() bool {
				err := clients["a"].Get(ctx, client.ObjectKeyFromObject(settings), &corev1.Secret{})
				return apierrors.IsNotFound(err)
			}).WithContext(ctx).Should(BeTrue())
			for _, kept := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
				Expect(clients["b"].Get(ctx, client.ObjectKeyFromObject(settings), kept)).To(Succeed())
			}
		}, NodeTimeout(timeout))
	}
})

// startOperator runs a manager with leader election and a cache until the spec
// ends, and returns its client once the cache is filled.
func startOperator(restConfig *rest.Config, namespace string, space tenant.Name) client.Client {
	GinkgoHelper()
	ctrl.SetLogger(GinkgoLogr)
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "mirror",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    config.Controller{SkipNameValidation: new(true)},
	})
	Expect(err).NotTo(HaveOccurred())
	err = ctrl.NewControllerManagedBy(mgr).Named("mirror").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&mirror{client: mgr.GetClient(), space: space})
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(done, timeout).Should(Receive(BeNil()))
	})
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	return mgr.GetClient()
}
