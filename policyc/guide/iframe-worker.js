// Browsers start no worker from an opened file: search then runs in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => this.onmessage?.({data});
      const script = this.frame.contentDocument.createElement("script");
      script.addEventListener("error", (event) => this.onerror?.(event));
      this.ready = new Promise((resolve) => script.addEventListener("load", resolve));
      script.src = url;
      this.frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.onmessage({data}));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
