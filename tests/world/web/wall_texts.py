"""Pages that stand before pages, as sites write them, and pages about such things, for `test_direct`.

Paragraphs are apart by an empty line; other line breaks are none, but before "- ".
"""

STANDING = {
    "Google, consent": """
Before you continue to Google

We use cookies and data to
- Deliver and maintain Google services
- Track outages and protect against spam, fraud, and abuse
- Measure audience engagement and site statistics to understand how our services are used and enhance the quality of
those services

If you choose to “Accept all,” we will also use cookies and data to
- Develop and improve new services
- Deliver and measure the effectiveness of ads
- Show personalized content, depending on your settings
- Show personalized ads, depending on your settings

If you choose to “Reject all,” we will not use cookies for these additional purposes.

Non-personalized content is influenced by things like the content you’re currently viewing, activity in your active
Search session, and your location. Non-personalized ads are influenced by the content you’re currently viewing and your
general location. Personalized content and ads can also include more relevant results, recommendations, and tailored ads
based on past activity from this browser, like previous Google searches. We also use cookies and data to tailor the
experience to be age-appropriate, if relevant.

Select “More options” to see additional information, including details about managing your privacy settings. You can
also visit g.co/privacytools at any time.""",
    "Amazon": """
Enter the characters you see below

Sorry, we just need to make sure you're not a robot. For best results, please make sure your browser is accepting
cookies.

Type the characters you see in this image:

Try different image

Continue shopping

Conditions of Use Privacy Policy

© 1996-2014, Amazon.com, Inc. or its affiliates""",
    "Cloudflare, refused": """
Sorry, you have been blocked

You are unable to access example.com

Why have I been blocked?

This website is using a security service to protect itself from online attacks. The action you just performed triggered
the security solution. There are several actions that could trigger this block including submitting a certain word or
phrase, a SQL command or malformed data.

What can I do to resolve this?

You can email the site owner to let them know you were blocked. Please include what you were doing when this page came
up and the Cloudflare Ray ID found at the bottom of this page.""",
    "PerimeterX": """
Access to this page has been denied because we believe you are using automation tools to browse the website.

This may happen as a result of the following:
- Javascript is disabled or blocked by an extension (ad blockers for example)
- Your browser does not support cookies

Please make sure that Javascript and cookies are enabled on your browser and that you are not blocking them from
loading.

Reference ID: #00000000""",
    "Google, traffic": """
About this page

Our systems have detected unusual traffic from your computer network. This page checks to see if it's really you sending
the requests, and not a robot. Why did this happen?

This page appears when Google automatically detects requests coming from your computer network which appear to be in
violation of the Terms of Service. The block will expire shortly after those requests stop. In the meantime, solving the
above CAPTCHA will let you continue to use our services.

This traffic may have been sent by malicious software, a browser plug-in, or a script that sends automated requests. If
you share your network connection, ask your administrator for help — a different computer using the same IP address may
be responsible. Learn more

Sometimes you may be asked to solve the CAPTCHA if you are using advanced terms that robots are known to use, or sending
requests very quickly.""",
    "Reddit": """
You've been blocked by network security.

To continue, log in to your Reddit account or use your developer token

If you think you've been blocked by mistake, file a ticket below and we'll look into it.""",
    "consent in German": """
Wir verwenden Cookies

Wir und unsere 150 Partner speichern und verarbeiten personenbezogene Daten wie Ihre IP-Adresse mit Technologien wie
Cookies, um Ihnen Werbung und Inhalte zu zeigen, deren Leistung zu messen und mehr über unser Publikum zu erfahren. Sie
entscheiden, wer Ihre Daten verwendet. Mit Ihrer Einwilligung nutzen wir genaue Standortdaten. Alle akzeptieren.
Einstellungen.""",
    "consent of many partners": """
We value your privacy

We and our 868 partners store and access personal data, like browsing data or unique identifiers, on your device.
Selecting "I Accept" enables tracking technologies to support the purposes shown under "we and our partners process data
to provide," whereas selecting "Reject All" or withdrawing your consent will disable them. If trackers are disabled,
some content and ads you see may not be as relevant to you. You can resurface this menu to change your choices or
withdraw consent at any time by clicking the "Your Privacy Choices" link on the bottom of the webpage.""",
    "DataDome": """
Please enable JS and disable any ad blocker""",
    "Imperva": """
Pardon Our Interruption

As you were browsing something about your browser made us think you were a bot. There are a few reasons this might
happen:
- You're a power user moving through this website with super-human speed.
- You've disabled JavaScript in your web browser.
- A third-party browser plugin, such as Ghostery or NoScript, is preventing JavaScript from running. Additional
information is available in this support article.

To regain access, please make sure that cookies and JavaScript are enabled before reloading the page.""",
}

ABOUT = {
    "a CAPTCHA system": """
# reCAPTCHA

reCAPTCHA is a CAPTCHA system that Google owns. It tells people from programs on behalf of a site. Its first version
asked visitors to read two words out of scanned books, of which one was known. Later ones look at how a visitor moves
the mouse, or at the cookies of the browser, and ask nothing as long as these look human. Digital libraries were made
from the words that visitors had typed.""",
    "a fine for a cookie banner": """
The French data protection authority fined the company 150 million euros on Thursday because its sites did not let
people refuse as easily as accept cookies. The regulator said that the cookie consent banner had one button to accept
all cookies and needed several clicks to refuse them. The company has three months to change its banner or pay 100,000
euros for each day of delay. A spokesman said that the company was committed to further changes.""",
    "how cookies are allowed": """
How to enable cookies in Firefox. Open the menu and choose Settings. Then choose Privacy and Security. Under Enhanced
Tracking Protection, choose Custom and untick Cookies. Close the page. Your changes are saved automatically. If you
still see messages that cookies are disabled, clear the cache of your browser and restart it, because a message may have
been kept. Sites that you visited before may need to be loaded anew.""",
    "a newspaper's subscribers": """
The newspaper said on Monday that it now has ten million readers who pay. Many had read their free articles this month
and were asked to subscribe to continue reading. Analysts expect more growth next year. The newspaper said on Monday
that it now has ten million readers who pay. Many had read their free articles this month and were asked to subscribe to
continue reading. Analysts expect more growth next year.""",
    "a firm, and its banner": """
Acme Tide Tables. We have made tide tables for sailors since 1921, and our office in Kendal is open every day. You can
order tables for your harbour by post or by telephone, and we send them within a week. Our tables cover four hundred
harbours. We use cookies to improve your experience. Accept all cookies.""",
    "a song": """
Just a Moment is a 2005 song by Nas featuring Quan, from the album Street's Disciple. It samples a record by Chic and
reached place 58 of the charts in Britain, where it was released as the third single of the album in May.""",
    "a site that was not found": """
Star Carr is a Mesolithic site in Yorkshire. The original shore of the site could not be found until trenches were dug
in 1985, when wooden platforms came to light. Barbed points and head-dresses of antler are in museums today.""",
    "what a CAPTCHA is": """
What is a CAPTCHA?

A CAPTCHA is a test that tells people from programs. You may meet one when you sign in from a new device. Type the
letters of the picture, or choose the pictures that show what is asked for. People who cannot see the picture choose the
sound instead and type what they hear. The test was invented in 2000 at Carnegie Mellon University.""",
}
