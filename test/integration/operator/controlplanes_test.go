package operator

import (
	"context"
	"crypto/x509"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/version"
	"github.com/tenantry/tenantry/test/env"
)

// named returns an object of a kind with a name.
func named[T client.Object](object T, name string) T {
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// owned is what goes with a ControlPlane.
func owned(cp *v1alpha1.ControlPlane) []client.Object {
	all := []client.Object{
		named(&corev1.ServiceAccount{}, cp.Name), named(&corev1.Service{}, cp.Name),
		named(&networkingv1.NetworkPolicy{}, cp.Name), named(&policyv1.PodDisruptionBudget{}, cp.Name),
		named(&corev1.Secret{}, cp.Name+"-serving"), named(&corev1.Secret{}, cp.Name+"-admin"),
		named(&corev1.Secret{}, cp.Name+"-configuration"),
	}
	if cp.Spec.Workloads != nil {
		all = append(all, named(&corev1.ServiceAccount{}, cp.Name+".syncer.tenantry.io"), named(&corev1.ServiceAccount{}, cp.Name+".connect.tenantry.io"),
			named(&networkingv1.NetworkPolicy{}, cp.Name+"-syncer"), named(&policyv1.PodDisruptionBudget{}, cp.Name+"-syncer"),
			named(&corev1.Secret{}, cp.Name+"-syncer"), named(&appsv1.Deployment{}, cp.Name+"-syncer"))
	}
	if cp.Spec.Storage.Etcd == nil {
		return append(all, named(&corev1.Service{}, cp.Name+"-members"), named(&appsv1.StatefulSet{}, cp.Name))
	}
	return append(all, named(&corev1.Secret{}, cp.Name+"-etcd"), named(&appsv1.Deployment{}, cp.Name),
		named(&networkingv1.NetworkPolicy{}, cp.Name+"-manager"), named(&policyv1.PodDisruptionBudget{}, cp.Name+"-manager"),
		named(&corev1.Secret{}, cp.Name+"-manager"), named(&appsv1.Deployment{}, cp.Name+"-manager"))
}

// kept is what stays without it.
func kept(cp *v1alpha1.ControlPlane) []client.Object {
	return []client.Object{named(&corev1.Secret{}, cp.Name+"-authorities"), named(&corev1.Secret{}, cp.Name+"-keys")}
}

func made(cp *v1alpha1.ControlPlane) []client.Object { return append(owned(cp), kept(cp)...) }

// createAvailable creates a ControlPlane and says that its server is ready.
func createAvailable(ctx context.Context, cp *v1alpha1.ControlPlane) {
	GinkgoHelper()
	create(ctx, cp)
	Eventually(func() bool { // the operator may change what it has just made, and then that has to become ready, too
		setReady(ctx, cp.Name)
		all := get(ctx, newControlPlane(cp.Name), cp.Name).Status.Conditions
		return meta.IsStatusConditionTrue(all, v1alpha1.ConditionAvailable) && meta.IsStatusConditionFalse(all, v1alpha1.ConditionProgressing)
	}).Should(BeTrue())
	expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
	expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsDesired)
}

var _ = Describe("A ControlPlane", func() {
	It("is made of what is its own", func(ctx SpecContext) {
		cp := newControlPlane("whole")
		create(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonServersNotReady)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.ReasonRollingOut)
		setReady(ctx, cp.Name)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsDesired)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		for _, object := range owned(cp) {
			get(ctx, object, object.GetName())
			Expect(metav1.IsControlledBy(object, cp)).To(BeTrue(), "%T", object)
			Expect(object.GetLabels()).To(HaveKeyWithValue("app.kubernetes.io/instance", cp.Name))
		}
		for _, object := range kept(cp) {
			get(ctx, object, object.GetName())
			Expect(object.GetOwnerReferences()).To(BeEmpty(), "%T", object)
		}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(cp), cp)).To(Succeed())
		Expect(cp.Status.Endpoint).To(Equal("https://whole.tenantry-system.svc:443"))
		Expect(cp.Status.CertificateAuthority).To(Equal(string(secret(ctx, "whole-authorities").Data["server-ca.crt"])))
		Expect(cp.Status.Version).To(Equal(version.Version))
		Expect(cp.Status.Replicas).To(BeEquivalentTo(1))
	})

	It("has pods that the restricted Pod Security Standard lets run", func(ctx SpecContext) {
		cp := newControlPlane("restricted")
		create(ctx, cp)
		pod := newPod("restricted-0", get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template)
		Expect(admin.Create(ctx, pod.DeepCopy(), client.DryRunAll)).To(Succeed())
		Expect(pod.Spec.Containers[0].Image).To(Equal(image))
		Expect(pod.Spec.SecurityContext.RunAsUser).To(BeNil())
		Expect(*pod.Spec.AutomountServiceAccountToken).To(BeFalse())
		pod.Spec.Containers[0].SecurityContext = nil
		Expect(apierrors.IsForbidden(admin.Create(ctx, pod, client.DryRunAll))).To(BeTrue(), "the namespace refuses nothing")
	})

	It("runs with the keys that are mounted, by the kubeconfig in its Secret", func(ctx SpecContext) {
		cp := newControlPlane("runs")
		create(ctx, cp)
		running := serve(ctx, cp.Name)
		config := adminConfig(ctx, cp.Name)
		Expect(config.Host).To(Equal("https://runs.tenantry-system.svc:443"))
		config.TLSClientConfig.ServerName = "runs.tenantry-system.svc"
		config.Host = running.ShortPath(config).Host
		Expect(namespaces(ctx, config)).To(ContainElement("kube-system"))

		By("not letting the authority of tenants' users make system users")
		keys := secret(ctx, "runs-keys").Data
		authority, err := pki.ParseAuthority("client-ca", keys["client-ca.crt"], keys["client-ca.key"])
		Expect(err).NotTo(HaveOccurred())
		forged := rest.CopyConfig(config)
		forged.CertData, forged.KeyData, err = (&pki.PKI{ClientCA: authority}).ClientCertificate(0, tenant.System, "admin", "system:masters")
		Expect(err).NotTo(HaveOccurred())
		_, err = kubernetes.NewForConfigOrDie(forged).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	}, NodeTimeout(startTimeout))

	It("does not give servers the keys of the system's authority", func(ctx SpecContext) {
		cp := newControlPlane("sparing")
		create(ctx, cp)
		var mounted []string
		for _, volume := range get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec.Volumes {
			for _, source := range volume.Projected.Sources {
				for _, item := range source.Secret.Items {
					mounted = append(mounted, item.Key)
				}
			}
		}
		slices.Sort(mounted)
		Expect(mounted).To(Equal([]string{"client-ca.crt", "client-ca.key", "front-proxy-client.crt", "front-proxy-client.key",
			"server-ca.crt", "server.crt", "server.key", "service-account.key", "service-account.pub", "system-ca.crt", "tenant-limits.tenant-limits.yaml"}))
	})

	It("is reached by the names that it has been given, without new pods", func(ctx SpecContext) {
		cp := newControlPlane("names")
		createAvailable(ctx, cp)
		before := versions(ctx, made(cp))
		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Expose.Names = []string{"tenantry.example.com", "192.0.2.7", "2001:db8::7"}
		})
		Eventually(func() string { return get(ctx, cp, cp.Name).Status.Endpoint }).Should(Equal("https://tenantry.example.com:443"))
		Expect(adminConfig(ctx, cp.Name).Host).To(Equal("https://tenantry.example.com:443"))
		serving := certificate(secret(ctx, "names-serving").Data["server.crt"])
		for _, host := range append(cp.Spec.Expose.Names, get(ctx, &corev1.Service{}, cp.Name).Spec.ClusterIP, "names.tenantry-system.svc.cluster.local") {
			Expect(serving.VerifyHostname(host)).To(Succeed())
		}
		after := versions(ctx, made(cp))
		for _, changed := range []string{"*v1.Secret names-serving", "*v1.Secret names-admin"} {
			Expect(after[changed]).NotTo(Equal(before[changed]), changed)
			delete(before, changed)
			delete(after, changed)
		}
		Expect(after).To(Equal(before), "what does not depend on the names was written")
	})

	It("is exposed at a port of the nodes, or by a load balancer once there is one", func(ctx SpecContext) {
		cp := newControlPlane("exposed")
		cp.Spec.Expose = v1alpha1.ControlPlaneExpose{Type: v1alpha1.ExposeNodePort, Names: []string{"2001:db8::7"}}
		createAvailable(ctx, cp)
		port := get(ctx, &corev1.Service{}, cp.Name).Spec.Ports[0].NodePort
		Expect(get(ctx, cp, cp.Name).Status.Endpoint).To(Equal("https://[2001:db8::7]:" + strconv.Itoa(int(port))))

		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Expose = v1alpha1.ControlPlaneExpose{Type: v1alpha1.ExposeLoadBalancer}
		})
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonAwaitingAddress)
		service := get(ctx, &corev1.Service{}, cp.Name)
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.8"}}
		Expect(admin.Status().Update(ctx, service)).To(Succeed())
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		Expect(get(ctx, cp, cp.Name).Status.Endpoint).To(Equal("https://192.0.2.8:443"))
		Expect(certificate(secret(ctx, "exposed-serving").Data["server.crt"]).VerifyHostname("192.0.2.8")).To(Succeed())
	})

	It("has the resources and the image of its spec", func(ctx SpecContext) {
		cp := parse("chosen", `{pod: {image: mirror.example/tenantry:x, resources: {requests: {cpu: 2}, limits: {memory: 8Gi}}}, storage: {embedded: {size: 3Gi, storageClassName: fast}}}`)
		create(ctx, newFrom(cp))
		set := get(ctx, &appsv1.StatefulSet{}, "chosen")
		container := set.Spec.Template.Spec.Containers[0]
		Expect(container.Image).To(Equal("mirror.example/tenantry:x"))
		Expect(container.Resources.Requests.Cpu().String()).To(Equal("2"))
		Expect(container.Resources.Limits.Memory().String()).To(Equal("8Gi"))
		Expect(container.Args).To(ContainElement("--etcd-quota-backend-bytes=1610612736"))
		claim := set.Spec.VolumeClaimTemplates[0].Spec
		Expect(*claim.StorageClassName).To(Equal("fast"))
		Expect(claim.Resources.Requests.Storage().String()).To(Equal("3Gi"))
	})
})

// serve runs a server as a pod of a ControlPlane would.
func serve(ctx context.Context, name string, changes ...func(*standalone.Options)) *env.Environment {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	for file, content := range secret(ctx, name+"-serving").Data {
		Expect(os.WriteFile(filepath.Join(dir, file), content, 0o600)).To(Succeed())
	}
	limits := filepath.Join(dir, "tenant-limits.yaml")
	Expect(os.WriteFile(limits, secret(ctx, name+"-configuration").Data["tenant-limits.tenant-limits.yaml"], 0o600)).To(Succeed())
	running, err := env.Start(ctx, append(changes, func(o *standalone.Options) { o.PKIDir, o.Server.HostTenantLimits = dir, limits })...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(running.Stop)
	return running
}

func adminConfig(ctx context.Context, name string) *rest.Config {
	GinkgoHelper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret(ctx, name+"-admin").Data["kubeconfig"])
	Expect(err).NotTo(HaveOccurred())
	return config
}

func namespaces(ctx context.Context, config *rest.Config) []string {
	GinkgoHelper()
	var names []string
	Eventually(func() error {
		list, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		return nil
	}).Should(Succeed())
	return names
}

func certificate(certPEM []byte) *x509.Certificate {
	GinkgoHelper()
	all, err := cert.ParseCertsPEM(certPEM)
	Expect(err).NotTo(HaveOccurred())
	return all[0]
}

// versions returns the resource versions of objects, by kind and name.
func versions(ctx context.Context, objects []client.Object) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, object := range objects {
		get(ctx, object, object.GetName())
		found[kindOf(object)+" "+object.GetName()] = object.GetResourceVersion()
	}
	Expect(slices.Collect(maps.Keys(found))).To(HaveLen(len(objects)))
	return found
}

func uidOf(ctx context.Context, object client.Object) types.UID {
	GinkgoHelper()
	return get(ctx, object, object.GetName()).GetUID()
}
