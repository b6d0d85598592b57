package operator

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

// newOnEtcd returns a ControlPlane whose objects are in an etcd that is not there.
func newOnEtcd(name string) *v1alpha1.ControlPlane {
	cp := newControlPlane(name)
	cp.Spec.Storage.Etcd = &v1alpha1.EtcdStorage{Endpoints: []string{"https://etcd.example.com:2379"}, SecretName: name + "-login"}
	return cp
}

// login returns the content of a Secret by which somebody logs in to an etcd.
func login() map[string][]byte {
	GinkgoHelper()
	authority, err := pki.NewAuthority("etcd")
	Expect(err).NotTo(HaveOccurred())
	cert, key, err := (&pki.PKI{ClientCA: authority}).ClientCertificate(0, tenant.System, "servers")
	Expect(err).NotTo(HaveOccurred())
	return map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM()}
}

// giveEtcdSecret creates the Secret of a ControlPlane's etcd, if it has one that is not there.
func giveEtcdSecret(ctx context.Context, cp *v1alpha1.ControlPlane) {
	GinkgoHelper()
	if cp.Spec.Storage.Etcd == nil {
		return
	}
	secret := named(&corev1.Secret{Data: login()}, cp.Spec.Storage.Etcd.SecretName)
	secret.Labels = map[string]string{"tenantry.io/control-plane": cp.Name}
	Expect(client.IgnoreAlreadyExists(admin.Create(ctx, secret))).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, secret))).To(Succeed()) })
}

var _ = Describe("A ControlPlane on an external etcd", func() {
	It("is made of servers, and then of managers", func(ctx SpecContext) {
		cp := newOnEtcd("several")
		create(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonServersNotReady)
		Expect(*get(ctx, &appsv1.Deployment{}, cp.Name).Spec.Replicas).To(BeEquivalentTo(2))
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "several-manager"}, &appsv1.Deployment{})).NotTo(Succeed(), "managers have nobody to talk to")

		setDeploymentReady(ctx, cp.Name)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		setDeploymentReady(ctx, "several-manager")
		expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsDesired)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		Expect(get(ctx, cp, cp.Name).Status.Replicas).To(BeEquivalentTo(2))
		for _, object := range owned(cp) {
			get(ctx, object, object.GetName())
			Expect(metav1.IsControlledBy(object, cp)).To(BeTrue(), "%T", object)
		}
		service := get(ctx, &corev1.Service{}, cp.Name)
		managers := get(ctx, &appsv1.Deployment{}, "several-manager").Spec.Template
		Expect(managers.Labels).NotTo(HaveKeyWithValue("app.kubernetes.io/component", service.Spec.Selector["app.kubernetes.io/component"]))
		Expect(managers.Spec.HostAliases).To(Equal([]corev1.HostAlias{{IP: service.Spec.ClusterIP, Hostnames: []string{"several.tenantry-system.svc"}}}))
	})

	It("has pods that the restricted Pod Security Standard lets run, without the keys of the system's authority", func(ctx SpecContext) {
		cp := newOnEtcd("restricted")
		createAvailable(ctx, cp)
		for _, name := range []string{cp.Name, cp.Name + "-manager"} {
			template := get(ctx, &appsv1.Deployment{}, name).Spec.Template
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
			Expect(admin.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			Expect(*pod.Spec.AutomountServiceAccountToken).To(BeFalse())
			for _, volume := range pod.Spec.Volumes {
				for _, source := range volume.Projected.Sources {
					Expect(source.Secret.Name).NotTo(HaveSuffix("-authorities"))
					if name == cp.Name {
						Expect(source.Secret.Name).NotTo(Or(HaveSuffix("-manager"), HaveSuffix("-admin")), "a server could be an administrator")
					}
				}
			}
		}
	})

	It("has as many servers as its spec says, and changes its managers last", func(ctx SpecContext) {
		cp := newOnEtcd("scaled")
		createAvailable(ctx, cp)
		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Replicas, cp.Spec.Pod.Image = new(int32(5)), "mirror.example/tenantry:x"
		})
		servers := &appsv1.Deployment{}
		Eventually(func() int32 { return *get(ctx, servers, cp.Name).Spec.Replicas }).Should(BeEquivalentTo(5))
		Expect(servers.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue()).To(BeZero())
		imageOf := func() string {
			return get(ctx, &appsv1.Deployment{}, "scaled-manager").Spec.Template.Spec.Containers[0].Image
		}
		expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut)
		Expect(imageOf()).To(Equal(image))
		setDeploymentReady(ctx, cp.Name)
		Eventually(imageOf).Should(Equal("mirror.example/tenantry:x"))
	})

	// changeLogin changes the Secret of a ControlPlane, and says whether its servers changed.
	changeLogin := func(ctx context.Context, cp *v1alpha1.ControlPlane, how func(*corev1.Secret)) {
		GinkgoHelper()
		change(ctx, &corev1.Secret{}, cp.Spec.Storage.Etcd.SecretName, how)
	}
	copied := func(ctx context.Context, cp *v1alpha1.ControlPlane) func() map[string][]byte {
		return func() map[string][]byte { return secret(ctx, cp.Name+"-etcd").Data }
	}
	generation := func(ctx context.Context, cp *v1alpha1.ControlPlane) int64 {
		GinkgoHelper()
		return get(ctx, &appsv1.Deployment{}, cp.Name).Generation
	}

	It("goes on with the login that it has when the Secret is gone, empty, wrong or somebody else's, and takes over the next", func(ctx SpecContext) {
		cp := newOnEtcd("rotated")
		createAvailable(ctx, cp)
		before := copied(ctx, cp)()
		whole := secret(ctx, cp.Spec.Storage.Etcd.SecretName)
		for name, spoil := range map[string]struct {
			how    func(*corev1.Secret)
			reason string
		}{
			"empty":           {func(s *corev1.Secret) { s.Data = nil }, v1alpha1.ReasonEtcdSecretInvalid},
			"without a key":   {func(s *corev1.Secret) { delete(s.Data, "tls.key") }, v1alpha1.ReasonEtcdSecretInvalid},
			"wrong":           {func(s *corev1.Secret) { s.Data["tls.key"] = login()["tls.key"] }, v1alpha1.ReasonEtcdSecretInvalid},
			"somebody else's": {func(s *corev1.Secret) { s.Labels["tenantry.io/control-plane"] = "other" }, v1alpha1.ReasonEtcdSecretMissing},
			"unlabelled":      {func(s *corev1.Secret) { s.Labels = nil }, v1alpha1.ReasonEtcdSecretMissing},
		} {
			By("being " + name)
			changeLogin(ctx, cp, spoil.how)
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, spoil.reason)
			Expect(condition.Message).To(ContainSubstring(`"rotated-login"`))
			expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
			changeLogin(ctx, cp, func(s *corev1.Secret) {
				s.Data, s.Labels = whole.Data, map[string]string{"tenantry.io/control-plane": cp.Name}
			})
			expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		}
		By("being gone")
		Expect(admin.Delete(ctx, named(&corev1.Secret{}, whole.Name))).To(Succeed())
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonEtcdSecretMissing)
		Expect(copied(ctx, cp)()).To(Equal(before))
		servers := named(&appsv1.Deployment{}, cp.Name)
		uid := uidOf(ctx, servers)
		Expect(admin.Delete(ctx, servers)).To(Succeed())
		Eventually(func() any { return uidOf(ctx, servers) }).ShouldNot(Equal(uid), "servers are made with the copy")
		made := generation(ctx, cp)
		giveEtcdSecret(ctx, cp) // with other authorities
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		Eventually(copied(ctx, cp)).ShouldNot(Equal(before))
		Eventually(func() int64 { return generation(ctx, cp) }).Should(Equal(made+1), "etcd's authorities are read once")

		By("having another certificate of the same authorities")
		made = generation(ctx, cp)
		other := login()
		changeLogin(ctx, cp, func(s *corev1.Secret) { s.Data["tls.crt"], s.Data["tls.key"] = other["tls.crt"], other["tls.key"] })
		Eventually(func() []byte { return copied(ctx, cp)()["tls.crt"] }).Should(Equal(other["tls.crt"]))
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		Expect(generation(ctx, cp)).To(Equal(made))
	}, NodeTimeout(startTimeout))

	It("does not mount what the operator has made for another ControlPlane", func(ctx SpecContext) {
		victim := newOnEtcd("victim")
		createAvailable(ctx, victim)
		cp := newOnEtcd("thief")
		for _, name := range []string{"victim-login", "victim-etcd", "victim-manager", "thief-etcd"} {
			cp := cp.DeepCopy()
			cp.Spec.Storage.Etcd.SecretName = name
			Expect(admin.Create(ctx, cp)).To(Succeed())
			condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonEtcdSecretMissing)
			Expect(condition.Message).To(ContainSubstring("label tenantry.io/control-plane=thief"))
			Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "thief-etcd"}, &corev1.Secret{})).NotTo(Succeed())
			Expect(admin.Delete(ctx, cp)).To(Succeed())
			for _, object := range made(cp) {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
			}
		}
	})
})
