package workloads

import (
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/server/authentication/webtoken"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// variable returns what a container is given in its environment.
func variable(c *corev1.Container, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// inCluster returns the configuration that client-go finds in a pod of the host, and where the files are.
func inCluster(ctx SpecContext, pod *corev1.Pod) *rest.Config {
	GinkgoHelper()
	files := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			switch {
			case source.Secret != nil:
				secret, err := host.CoreV1().Secrets(pod.Namespace).Get(ctx, source.Secret.Name, metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				for _, item := range source.Secret.Items {
					files[item.Path] = string(secret.Data[item.Key])
				}
			case source.ConfigMap != nil:
				configMap, err := host.CoreV1().ConfigMaps(pod.Namespace).Get(ctx, source.ConfigMap.Name, metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				for _, item := range source.ConfigMap.Items {
					files[item.Path] = configMap.Data[item.Key]
				}
			}
		}
	}
	c := &pod.Spec.Containers[0]
	return &rest.Config{
		Host:        "https://" + net.JoinHostPort("127.0.0.1", variable(c, "KUBERNETES_SERVICE_PORT")),
		BearerToken: files["token"], TLSClientConfig: rest.TLSClientConfig{CAData: []byte(files["ca.crt"]), ServerName: variable(c, "KUBERNETES_SERVICE_HOST")},
	}
}

// withSecret waits until the host has the tokens of its pod.
func withSecret(ctx SpecContext, pod *corev1.Pod) *corev1.Secret {
	GinkgoHelper()
	var secret *corev1.Secret
	Eventually(func() (err error) {
		secret, err = host.CoreV1().Secrets(pod.Namespace).Get(ctx, names.Tokens(types.UID(pod.Annotations[names.UIDAnnotation])), metav1.GetOptions{})
		return err
	}).Should(Succeed())
	return secret
}

var _ = Describe("Tokens of pods", func() {
	It("are those of their service accounts, and good in their space alone", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		made, err := client.CoreV1().Pods("default").Create(ctx, plainPod("asks-api"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "asks-api")
		secret := withSecret(ctx, there)
		Expect(secret.OwnerReferences).To(ConsistOf(metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "asks-api", UID: there.UID}))
		Expect(there.Spec.ServiceAccountName).To(BeElementOf("", "default"))
		config := inCluster(ctx, there)
		own, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		_, err = own.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden), "it has no rights")
		_, err = client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "asks-api"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			found, err := own.CoreV1().Pods("default").Get(ctx, "asks-api", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(found.UID).To(Equal(made.UID))
		}).Should(Succeed())
		for _, space := range []string{"globex", "system", "all"} {
			elsewhere := rest.CopyConfig(config)
			elsewhere.Host += "/tenants/" + space
			other, err := kubernetes.NewForConfig(elsewhere)
			Expect(err).NotTo(HaveOccurred())
			_, err = other.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			Expect(err).To(Satisfy(apierrors.IsForbidden), space)
		}

		By("ending with the pod")
		Expect(client.CoreV1().Pods("default").Delete(ctx, "asks-api", *metav1.NewDeleteOptions(0))).To(Succeed())
		Eventually(func() error {
			_, err := own.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err
		}).WithTimeout(suite.StartTimeout).Should(Satisfy(apierrors.IsUnauthorized))
		Expect(host.CoreV1().Pods(there.Namespace).Delete(ctx, "asks-api", *metav1.NewDeleteOptions(0))).To(Or(Succeed(), Satisfy(apierrors.IsNotFound)))
		Eventually(func() error {
			_, err := host.CoreV1().Secrets(there.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})

	It("are for whom and for how long they are asked for, and bound to their pod", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		_, err := core.ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := plainPod("audiences")
		pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = "robot", new(false)
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault", ExpirationSeconds: new(int64(600))}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}}}
		made, err := core.Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "audiences")
		secret := withSecret(ctx, there)
		sources := there.Spec.Volumes[0].Projected.Sources
		Expect(sources[0].Secret.Items).To(ConsistOf(corev1.KeyToPath{Key: "token-0", Path: "vault"}))
		Expect(sources[1].Secret.Items).To(ConsistOf(corev1.KeyToPath{Key: "token-1", Path: "token"}))
		claims := webtoken.Parse(string(secret.Data["token-0"]))
		Expect(claims.Text("iss")).To(HaveSuffix("/tenants/acme"))
		Expect(claims.Text("sub")).To(Equal("system:serviceaccount:default:robot"))
		Expect(string(claims["aud"])).To(Equal(`["vault"]`))
		Expect(string(claims["kubernetes.io"])).To(ContainSubstring(`"pod":{"name":"audiences","uid":"` + string(made.UID) + `"}`))
		Expect(webtoken.Parse(string(secret.Data["token-1"])).Text("iss")).To(Equal(claims.Text("iss")))
	})

	It("are needed: a pod whose service account is gone says so, and runs when it is there", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		_, err := core.ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := plainPod("late")
		pod.Spec.ServiceAccountName = "late"
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		_, err = core.Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(core.ServiceAccounts("default").Delete(ctx, "late", metav1.DeleteOptions{})).To(Succeed())
		_, err = core.Pods("default").Patch(ctx, "late", types.MergePatchType, []byte(`{"spec":{"schedulingGates":[]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			now, err := core.Pods("default").Get(ctx, "late", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(`service account "late"`))))
		}).Should(Succeed())
		_, err = core.ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		withSecret(ctx, onHost(ctx, acme, "late"))
	})

	It("come with variables of the space's Services, as they are when the pod begins", func(ctx SpecContext) {
		client := tenantry.Client(globex)
		var address string
		Eventually(func() error {
			made, err := client.CoreV1().Services("default").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{{Name: "sql", Port: 5432}},
			}}, metav1.CreateOptions{})
			if err == nil {
				address = made.Spec.ClusterIP
			}
			return err
		}).Should(Succeed())
		_, err := client.CoreV1().Pods("default").Create(ctx, plainPod("linked"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		c := &onHost(ctx, globex, "linked").Spec.Containers[0]
		Expect(variable(c, "MY_DB_SERVICE_HOST")).To(Equal(address))
		Expect(variable(c, "MY_DB_SERVICE_PORT_SQL")).To(Equal("5432"))
		Expect(variable(c, "KUBERNETES_PORT")).To(HavePrefix("tcp://" + apiAddress + ":"))

		kube, err := client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(kube.Spec.ClusterIP).To(Equal(apiAddress))
		list, err := client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(ContainElement(HaveField("Spec.ClusterIP", apiAddress)))
		system, err := host.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(system.Spec.ClusterIP).NotTo(Equal(apiAddress), "it is the system space's own")
		Expect(system.Spec.Ports[0].Port).To(Equal(int32(443)))
	})
})
