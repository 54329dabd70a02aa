// What a person would see, waited for: a page draws a moment after it was acted on.

/** shows waits until an element has a text. */
export const shows = (locator, text) => locator.filter({ hasText: text }).first().waitFor();

/** settled waits until a page shows something that is not a promise of it. */
export async function settled(page) {
  await page.locator("main h1:visible").first().waitFor();
  await page.waitForFunction(() => !document.querySelector("main [aria-busy=true]"));
}

/** absent waits until there is no such element. */
export const absent = (locator) => locator.first().waitFor({ state: "detached" });

/** counts waits until there are so many of an element. */
export async function counts(locator, n) {
  await locator.nth(n - 1).waitFor({ state: "attached" });
  await locator.nth(n).waitFor({ state: "detached" });
}

/** submit presses what confirms a form, once the page is connected: it does nothing before. */
export async function submit(page) {
  await page.locator("span.live").getByText("live", { exact: true }).waitFor();
  await page.keyboard.press("Control+Enter");
}

/** off waits until a button says that it cannot be used now. */
export const off = (button) => button.and(button.page().locator("[aria-disabled=true]")).waitFor();

/** reconnects presses Try now, unless the page is sooner by itself, and waits until the page is connected again. */
export async function reconnects(page) {
  page.getByRole("button", { name: "Try now" }).click().catch(() => {}); // the button goes with the loss
  await page.getByText(/Connection lost at/).waitFor({ state: "detached" });
}
